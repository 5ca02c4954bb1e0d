// SPDX-License-Identifier: Apache-2.0

module raftsman/tools/go/bboltcheck

go 1.25.0

tool raftsman/tools/go/bboltcheck

// The first requirement gives the set its version.
require go.etcd.io/bbolt v1.4.3

require golang.org/x/sys v0.29.0 // indirect
