// SPDX-License-Identifier: Apache-2.0

// Command etcd is the etcd server. Upstream's own main package is called "server",
// and so would be the binary.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
