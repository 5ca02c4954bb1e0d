# SPDX-License-Identifier: Apache-2.0
"""Real etcd and real Kubernetes on one machine, for tests. See docs/internals/rig.md."""
