// SPDX-License-Identifier: Apache-2.0

// Command clientv3 asks one etcd member for its status over and over on one connection, as etcd's
// own Go client does it. It prints one JSON line.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func kib(field string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field+":" {
			n, _ := strconv.ParseInt(words[1], 10, 64)
			return n
		}
	}
	return 0
}

func main() {
	url := os.Args[1]
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	// client.Status() dials anew for every call; this one stays on the connection there is.
	remote := clientv3.RetryMaintenanceClient(client, client.ActiveConnection())
	warm := clientv3.NewMaintenanceFromMaintenanceClient(remote, client)
	ask := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := warm.Status(ctx, url); err != nil {
			log.Fatal(err)
		}
	}
	for range 100 {
		ask()
	}
	began := time.Now()
	for range count {
		ask()
	}
	took := time.Since(began).Seconds()
	fmt.Printf("{\"seconds\": %.6f, \"count\": %d, \"rss\": %d, \"peak\": %d}\n", took, count, kib("VmRSS"), kib("VmHWM"))
}
