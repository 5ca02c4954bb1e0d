/* SPDX-License-Identifier: Apache-2.0
 * Two clocks behind one pointer, so that tests can turn them.
 *
 * Wall time is for what people read and what is stored. Boot time (CLOCK_BOOTTIME) counts on
 * through suspend and never jumps: every deadline and every "for how long" is measured with it. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

struct clock {
    int64_t (*wall_us)(const struct clock *c);
    int64_t (*boot_ms)(const struct clock *c);
};

extern const struct clock clock_real;

static inline int64_t clock_wall_us(const struct clock *c)
{
    return c->wall_us(c);
}

static inline int64_t clock_now_s(const struct clock *c)
{
    return clock_wall_us(c) / 1000000;
}

static inline int64_t clock_boot_ms(const struct clock *c)
{
    return c->boot_ms(c);
}

/* A clock that stands still until told. Thread-safe. Pass &fake.clock where a clock is wanted. */
struct clock_fake {
    struct clock clock;
    _Atomic int64_t wall_us_now;
    _Atomic int64_t boot_ms_now;
};

void clock_fake_init(struct clock_fake *f, int64_t wall_s);
void clock_fake_advance(struct clock_fake *f, int64_t ms);   /* time passes: both clocks move */
void clock_fake_jump_wall(struct clock_fake *f, int64_t ms); /* someone set the date */
