/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include "unit.h"

static void the_fields_are_those_other_clients_use(void **state)
{
    (void)state;
    struct err e = {0};
    json_auto_t *fresh = lease_object("ns", "n", "me", 15000, 1000000);
    assert_int_equal(jint(fresh, "spec.leaseDurationSeconds", 0), 15);
    assert_string_equal(jstr(fresh, "spec.renewTime", ""), "1970-01-01T00:00:01.000000Z");
    assert_string_equal(jstr(fresh, "spec.acquireTime", ""), "1970-01-01T00:00:01.000000Z");

    struct lease l = {0}, other = {0};
    assert_err(lease_read(fresh, &l, &e), ERR_INVALID, "resourceVersion");
    json_object_set_new(jget(fresh, "metadata"), "resourceVersion", js("5"));
    json_object_set_new(jget(fresh, "spec"), "leaseTransitions", ji(3));
    assert_ok(lease_read(fresh, &l, &e));
    assert_string_equal(l.holder, "me");
    assert_int_equal(l.duration_ms, 15000);

    json_auto_t *take = lease_take(&l, "you", 10000, 0);
    assert_string_equal(jstr(take, "spec.holderIdentity", ""), "you");
    assert_int_equal(jint(take, "spec.leaseTransitions", 0), 4);
    json_auto_t *renew = lease_renew("you", 0);
    assert_null(jget(renew, "spec.acquireTime"));
    json_auto_t *release = lease_release(0);
    assert_string_equal(jstr(release, "spec.holderIdentity", "x"), "");

    json_object_set_new(jget(fresh, "metadata"), "resourceVersion", js("6"));
    assert_ok(lease_read(fresh, &other, &e));
    assert_false(lease_same(&l, &other));
    assert_true(lease_same(&l, &l));
    assert_false(lease_same(&(struct lease){0}, &(struct lease){0}));
    lease_done(&l);
    lease_done(&l);
    lease_done(&other);
}

TEST_MAIN(TEST(the_fields_are_those_other_clients_use))
