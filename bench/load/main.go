// Load sends a server as many requests as it can take, over several keep-alive connections, and measures its speed.
//
// It reads a plan as JSON from stdin and writes a report as JSON to stdout. Each connection repeats the plan's steps, with
// one request in flight. It knows nothing about the servers: a request is a fixed text with placeholders for names and
// leases, whose Content-Length already fits.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type plan struct {
	Port            int     `json:"port"`
	IsHTTP          bool    `json:"is_http"`
	InBase64        bool    `json:"in_base64"`
	Steps           []step  `json:"steps"`
	Connections     int     `json:"connections"`
	WarmUpSeconds   float64 `json:"warm_up_seconds"`
	Seconds         float64 `json:"seconds"`
	Series          int64   `json:"series"`
	PatienceSeconds float64 `json:"patience_seconds"`
}

// A step is a request for one or more names, and what a correct response contains for each of them.
type step struct {
	Request string `json:"request"`
	Expect  string `json:"expect"`
	Times   int    `json:"times"`
	pieces  []string
	repeats int // how often each name occurs in the request
}

type report struct {
	PerSecond  float64 `json:"per_second"`
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	Requests   int     `json:"requests"` // including the warm-up
	Wrong      int     `json:"wrong"`
	FirstWrong string  `json:"first_wrong"`
	CPU        float64 `json:"cpu"` // share of a core that the generator used
}

func main() {
	// The server shares the machine with it, so it takes one core at most, whatever the server.
	runtime.GOMAXPROCS(1)
	var wanted plan
	err := json.NewDecoder(os.Stdin).Decode(&wanted)
	if err == nil {
		var measured report
		if measured, err = run(wanted); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(measured)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(wanted plan) (report, error) {
	for number := range wanted.Steps {
		wanted.Steps[number].cut()
	}
	callers := make([]*caller, wanted.Connections)
	var count atomic.Int64
	for number := range callers {
		var err error
		if callers[number], err = dial(&wanted, &count); err != nil {
			return report{}, err
		}
	}
	begun, cpu := time.Now(), cpuSeconds()
	from := begun.Add(seconds(wanted.WarmUpSeconds))
	until := from.Add(seconds(wanted.Seconds))
	failures := make([]error, len(callers))
	var all sync.WaitGroup
	for number, each := range callers {
		all.Add(1)
		go func(number int, each *caller) {
			defer all.Done()
			failures[number] = each.repeat(from, until)
		}(number, each)
	}
	all.Wait()
	for _, failure := range failures {
		if failure != nil {
			return report{}, failure
		}
	}
	measured := sum(callers, wanted.Seconds)
	measured.CPU = (cpuSeconds() - cpu) / time.Since(begun).Seconds()
	return measured, nil
}

func sum(callers []*caller, seconds float64) report {
	var measured report
	var took []time.Duration
	for _, each := range callers {
		took = append(took, each.took...)
		measured.Requests += each.requests
		measured.Wrong += each.wrong
		if measured.FirstWrong == "" {
			measured.FirstWrong = each.firstWrong
		}
	}
	sort.Slice(took, func(one, other int) bool { return took[one] < took[other] })
	measured.PerSecond = float64(len(took)) / seconds
	measured.P50, measured.P99 = percentile(took, 50), percentile(took, 99)
	return measured
}

func percentile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100].Seconds()
}

func seconds(number float64) time.Duration {
	return time.Duration(number * float64(time.Second))
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
