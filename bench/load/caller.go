package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Placeholders for names and leases in requests.
const (
	nameWord  = "NAME"
	leaseWord = "LEASE"
	leaseMark = `"lease_id":"`
	names     = 10_000_000_000_000
	spread    = 7_368_787_123 // scatters names, so that consecutive ones are far apart in an index
)

var words = regexp.MustCompile(nameWord + "|" + leaseWord)

// cut splits the request into placeholders and the text between them.
func (s *step) cut() {
	end := 0
	for _, found := range words.FindAllStringIndex(s.Request, -1) {
		s.pieces = append(s.pieces, s.Request[end:found[0]], s.Request[found[0]:found[1]])
		end = found[1]
	}
	s.pieces = append(s.pieces, s.Request[end:])
	s.repeats = strings.Count(s.Request, nameWord) / s.Times
}

// A caller is a connection with its measurements.
type caller struct {
	plan       *plan
	count      *atomic.Int64
	socket     net.Conn
	reader     *bufio.Reader
	request    []byte
	response   []byte
	names      []string
	leases     []string
	took       []time.Duration
	requests   int
	wrong      int
	firstWrong string
}

func dial(wanted *plan, count *atomic.Int64) (*caller, error) {
	socket, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", wanted.Port))
	if err != nil {
		return nil, err
	}
	return &caller{plan: wanted, count: count, socket: socket, reader: bufio.NewReaderSize(socket, 1<<16)}, nil
}

// repeat runs the steps until the time is over, and always finishes the last round, so that nothing is left held.
func (c *caller) repeat(from, until time.Time) error {
	defer c.socket.Close()
	for time.Now().Before(until) {
		c.names, c.leases = c.names[:0], c.leases[:0]
		for _, next := range c.plan.Steps {
			started := time.Now()
			isRight, err := c.ask(next, started)
			if err != nil {
				return err
			}
			if !isRight {
				break
			}
			c.requests++
			if ended := time.Now(); ended.After(from) && ended.Before(until) {
				c.took = append(c.took, ended.Sub(started))
			}
		}
	}
	return nil
}

// ask reports whether the response was correct; after an error, the connection cannot be used any more.
func (c *caller) ask(next step, now time.Time) (bool, error) {
	c.fill(next)
	if err := c.socket.SetDeadline(now.Add(seconds(c.plan.PatienceSeconds))); err != nil {
		return false, err
	}
	if _, err := c.socket.Write(c.request); err != nil {
		return false, err
	}
	status, err := c.read(next.Times)
	if err != nil {
		return false, err
	}
	if status == "200" && bytes.Count(c.response, []byte(next.Expect)) == next.Times {
		c.keepLeases()
		return true, nil
	}
	if c.wrong++; c.firstWrong == "" {
		c.firstWrong = fmt.Sprintf("%s %.500s", status, c.response)
	}
	return false, nil
}

// fill replaces the placeholders. The later steps of a turn use the names of its first.
func (c *caller) fill(next step) {
	c.request = c.request[:0]
	words, leases := 0, 0
	for _, piece := range next.pieces {
		switch {
		case piece == nameWord:
			number := words / next.repeats
			if number == len(c.names) {
				c.names = append(c.names, c.newName())
			}
			piece, words = c.names[number], words+1
		case piece == leaseWord && leases < len(c.leases):
			piece, leases = c.leases[leases], leases+1
		}
		c.request = append(c.request, piece...)
	}
}

func (c *caller) newName() string {
	name := fmt.Sprintf("issue-%04d-%013d", c.plan.Series, c.count.Add(1)*spread%names)
	if c.plan.InBase64 {
		return base64.StdEncoding.EncodeToString([]byte(name))
	}
	return name
}

func (c *caller) keepLeases() {
	rest := c.response
	for {
		_, after, isFound := bytes.Cut(rest, []byte(leaseMark))
		if !isFound {
			return
		}
		lease, _, _ := bytes.Cut(after, []byte(`"`))
		c.leases = append(c.leases, string(lease))
		rest = after
	}
}

// read reads a whole response: the body for HTTP, one line per command for Redis.
func (c *caller) read(lines int) (string, error) {
	c.response = c.response[:0]
	if c.plan.IsHTTP {
		return c.readHTTP()
	}
	for ; lines > 0; lines-- {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		c.response = append(c.response, line...)
	}
	return "200", nil
}

func (c *caller) readHTTP() (string, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 12 {
		return "", fmt.Errorf("not HTTP: %q", line)
	}
	status, length := string(line[9:12]), -1
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return "", err
		}
		key, value, isField := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		if !isField {
			break
		}
		if bytes.EqualFold(key, []byte("content-length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return "", err
			}
		}
	}
	if length < 0 {
		return "", fmt.Errorf("a response without a length, status %s", status)
	}
	c.response = append(c.response, make([]byte, length)...)
	_, err = io.ReadFull(c.reader, c.response)
	return status, err
}
