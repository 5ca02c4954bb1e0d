/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/errors.h"

#include "unit.h"

static const struct {
    const char *message;
    int origin;
    enum err_code read, mutating;
    enum etcd_error is;
} rows[] = {
    {"etcdserver: mvcc: required revision has been compacted", 11, ERR_EXPIRED, ERR_EXPIRED,
     ETCD_COMPACTED},
    {"etcdserver: re-configuration failed due to not enough started members", 2, ERR_NOT_READY,
     ERR_NOT_READY, ETCD_NOT_ENOUGH_STARTED},
    {"etcdserver: too many requests", 2, ERR_THROTTLED, ERR_THROTTLED, ETCD_TOO_MANY_REQUESTS},
    {"etcdserver: rpc not supported for learner", 14, ERR_UNAVAILABLE, ERR_UNAVAILABLE,
     ETCD_LEARNER},
    {"etcdserver: rpc not supported for learner", 9, ERR_UNAVAILABLE, ERR_UNAVAILABLE,
     ETCD_LEARNER},
    {"etcdserver: request timed out", 14, ERR_TIMEOUT, ERR_OUTCOME_UNKNOWN, ETCD_TIMED_OUT},
    {"etcdserver: request timed out, possibly due to connection lost", 14, ERR_TIMEOUT,
     ERR_OUTCOME_UNKNOWN, ETCD_TIMED_OUT},
    {"etcdserver: request timed out, leader transfer took too long", 2, ERR_TIMEOUT,
     ERR_OUTCOME_UNKNOWN, ETCD_TIMED_OUT},
    {"etcdserver: server stopped", 14, ERR_UNAVAILABLE, ERR_OUTCOME_UNKNOWN, ETCD_STOPPED},
    {"etcdserver: no leader", 14, ERR_UNAVAILABLE, ERR_UNAVAILABLE, ETCD_NO_LEADER},
    {"etcdserver: can only promote a learner member", 9, ERR_CONFLICT, ERR_CONFLICT,
     ETCD_NOT_LEARNER},
    {"etcdserver: can only promote a learner member which is in sync with leader", 9, ERR_NOT_READY,
     ERR_NOT_READY, ETCD_LEARNER_NOT_READY},
    {"etcdserver: member not found", 5, ERR_NOT_FOUND, ERR_NOT_FOUND, ETCD_MEMBER_NOT_FOUND},
    {"etcdserver: mvcc: database space exceeded", 8, ERR_TOO_BIG, ERR_TOO_BIG, ETCD_NO_SPACE},
    {"auth: permission denied", 2, ERR_DENIED, ERR_DENIED, ETCD_PERMISSION_DENIED},
    {"auth: invalid auth token", 2, ERR_DENIED, ERR_DENIED, ETCD_BAD_TOKEN},
    {"etcdserver: user name is empty", 3, ERR_DENIED, ERR_DENIED, ETCD_NO_CREDENTIALS},
    {"etcdserver: corrupt cluster", 15, ERR_CORRUPT, ERR_CORRUPT, ETCD_CORRUPT},
};

static void the_text_decides_whatever_the_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int mutating = 0; mutating < 2; mutating++) {
            struct err e = {.code = ERR_IO, .origin = rows[i].origin};
            (void)etcd_error_map(str_c(rows[i].message), mutating, &e);
            if (e.code != (mutating ? rows[i].mutating : rows[i].read) ||
                e.origin != rows[i].origin || !etcd_error_is(&e, rows[i].is))
                fail_msg("%s: %s %s", rows[i].message, err_code_name(e.code), e.reason);
        }
    }
}

static void an_unknown_text_leaves_the_error_as_it_is(void **state)
{
    (void)state;
    struct err e;
    err_set(&e, ERR_IO, 13, "panic somewhere");
    (void)etcd_error_map(STR("panic somewhere"), true, &e);
    assert_int_equal(e.code, ERR_IO);
    assert_string_equal(e.reason, "");
    assert_false(etcd_error_is(&e, ETCD_NONE));
}

static void every_text_is_its_own(void **state)
{
    (void)state;
    static const char *const texts[] = {
#define X(name, read, mutating, text) [ETCD_##name] = text,
        ETCD_ERRORS(X)
#undef X
    };
    for (size_t i = 1; i < COUNT_OF(texts); i++)
        assert_int_equal(etcd_error_of(str_c(texts[i])), i);
}

TEST_MAIN(TEST(the_text_decides_whatever_the_code), TEST(an_unknown_text_leaves_the_error_as_it_is),
          TEST(every_text_is_its_own))
