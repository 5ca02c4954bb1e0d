// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plugins a test cluster needs and no others: the
// full build would also compile the libraries of several cloud providers.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

// A query passes the plugins in this order, whatever their order in the Corefile; it
// is upstream's order with the absent ones left out.
func init() {
	dnsserver.Directives = []string{
		"reload",
		"bind",
		"ready",
		"health",
		"prometheus",
		"errors",
		"log",
		"cache",
		"hosts",
		"kubernetes",
		"loop",
		"forward",
	}
}

func main() {
	coremain.Run()
}
