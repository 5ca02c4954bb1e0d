/* SPDX-License-Identifier: Apache-2.0
 * The domain that the names of a cluster's Services end in. Pure. */
#pragma once
#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#define KUBE_DOMAIN_DEFAULT "cluster.local"

/* The domain a Pod's /etc/resolv.conf tells: what follows "svc." in the first entry of a search
 * line that begins so. Borrowed from the text; empty if it tells none. */
struct str kube_domain_told(struct str resolv_conf);

/* Lower-case labels of letters, digits and dashes, 253 bytes in all. ERR_INVALID. */
NODISCARD int kube_domain_check(struct str domain, struct err *e);
