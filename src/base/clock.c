/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static struct timespec read_clock(clockid_t id)
{
    struct timespec ts = {0};
    (void)clock_gettime(id, &ts); /* fails only for unknown clocks */
    return ts;
}

static int64_t real_wall_us(const struct clock *c)
{
    (void)c;
    const struct timespec ts = read_clock(CLOCK_REALTIME);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t real_boot_ms(const struct clock *c)
{
    (void)c;
    const struct timespec ts = read_clock(CLOCK_BOOTTIME);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

const struct clock clock_real = {.wall_us = real_wall_us, .boot_ms = real_boot_ms};

static const struct clock_fake *fake_of(const struct clock *c)
{
    return (const struct clock_fake *)((const char *)c - offsetof(struct clock_fake, clock));
}

static int64_t fake_wall_us(const struct clock *c)
{
    return atomic_load(&fake_of(c)->wall_us_now);
}

static int64_t fake_boot_ms(const struct clock *c)
{
    return atomic_load(&fake_of(c)->boot_ms_now);
}

void clock_fake_init(struct clock_fake *f, int64_t wall_s)
{
    f->clock = (struct clock){.wall_us = fake_wall_us, .boot_ms = fake_boot_ms};
    atomic_init(&f->wall_us_now, wall_s * 1000000);
    atomic_init(&f->boot_ms_now, 1000);
}

void clock_fake_advance(struct clock_fake *f, int64_t ms)
{
    atomic_fetch_add(&f->wall_us_now, ms * 1000);
    atomic_fetch_add(&f->boot_ms_now, ms);
}

void clock_fake_jump_wall(struct clock_fake *f, int64_t ms)
{
    atomic_fetch_add(&f->wall_us_now, ms * 1000);
}
