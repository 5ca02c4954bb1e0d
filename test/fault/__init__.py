# SPDX-License-Identifier: Apache-2.0
"""Servers and proxies that misbehave on purpose. Loopback only."""
