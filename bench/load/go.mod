module octostore/bench/load

go 1.19
