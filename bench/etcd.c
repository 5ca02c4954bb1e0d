/* SPDX-License-Identifier: Apache-2.0
 * The etcd client as the benchmarks measure it. Each verb prints one JSON line.
 *
 *     bench_etcd fill|status|snapshot|hold|probe --endpoints URL,... [--count N] [--cacert FILE] */
#include <sys/resource.h>
#include <time.h>

#include "etcd/kv.h"
#include "etcd/maintenance.h"
#include "etcd/probe.h"
#include "etcd_args.h"

static struct etcd_args args;
static struct etcd_client *c;
static struct err e;

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A line of /proc/self/status, in KiB. */
static long memory_kib(const char *field)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;
    CHECK(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, field, strlen(field)) == 0)
            CHECK(sscanf(line + strlen(field), ": %ld", &kib) == 1);
    (void)fclose(f);
    return kib;
}

static void report(double took, int64_t count, double extra)
{
    (void)printf("{\"seconds\": %.6f, \"count\": %lld, \"rss\": %ld, \"peak\": %ld, "
                 "\"extra\": %.3f}\n",
                 took, (long long)count, memory_kib("VmRSS"), memory_kib("VmHWM"), extra);
}

static void fill(void)
{
    enum { BYTES = 1 << 20 };
    auto_free char *value = xcalloc(1, BYTES);
    uint64_t state = 1;
    for (int64_t i = 0; i < args.count; i++) {
        for (size_t at = 0; at + 8 <= BYTES; at += 8) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            memcpy(value + at, &state, 8);
        }
        char key[32];
        (void)snprintf(key, sizeof(key), "fill/%06lld", (long long)i);
        OK(etcd_put(&args.root, c, &(struct etcd_put){.key = str_c(key), .value = {value, BYTES}},
                    NULL, &e));
    }
}

static void status(void)
{
    struct etcd_status s = {0};
    for (int i = 0; i < 100; i++) {
        OK(etcd_status(&args.root, c, 0, &s, &e));
        etcd_status_done(&s);
    }
    const double began = seconds();
    for (int64_t i = 0; i < args.count; i++) {
        const struct ctx ctx = ctx_with_timeout(&args.root, 5000);
        OK(etcd_status(&ctx, c, 0, &s, &e));
        etcd_status_done(&s);
    }
    report(seconds() - began, args.count, 0);
}

static int to_null(void *arg, struct str bytes, struct err *why)
{
    return fwrite(bytes.p, 1, bytes.n, arg) == bytes.n ? 0 : err_set(why, ERR_IO, 0, "write");
}

static void snapshot(void)
{
    FILE *null = fopen("/dev/null", "w");
    CHECK(null);
    struct etcd_snapshot s;
    const double began = seconds();
    OK(etcd_snapshot(&args.root, c, 0, to_null, null, &s, &e));
    report(seconds() - began, (int64_t)s.size_bytes, 0);
    (void)fclose(null);
}

/* Connections that are all open at once, each used: what one of them costs. */
static void hold(void)
{
    struct etcd_client **held = xcalloc((size_t)args.count, sizeof(struct etcd_client *));
    struct etcd_status s = {0};
    OK(etcd_status(&args.root, c, 0, &s, &e)); /* libraries are not the cost of a connection */
    etcd_status_done(&s);
    const long before_kib = memory_kib("VmHWM");
    const double began = seconds();
    for (int64_t i = 0; i < args.count; i++) {
        held[i] = etcd_args_client(&args);
        OK(etcd_status(&args.root, held[i], 0, &s, &e));
        etcd_status_done(&s);
    }
    report(seconds() - began, args.count,
           (double)(memory_kib("VmHWM") - before_kib) / (double)args.count);
    for (int64_t i = 0; i < args.count; i++)
        etcd_client_free(held[i]);
    free(held);
}

static void probe(void)
{
    struct etcd_probe_target *targets = xcalloc(args.n_endpoints, sizeof(*targets));
    struct etcd_probe_answer *answers = xcalloc(args.n_endpoints, sizeof(*answers));
    for (size_t i = 0; i < args.n_endpoints; i++)
        targets[i] = (struct etcd_probe_target){
            .endpoint = args.endpoints[i],
            .tls = args.tls,
            .ask = ETCD_ASK_ALARMS | ETCD_ASK_MEMBERS | ETCD_ASK_READ,
            .timeout_ms = args.timeout_ms,
        };
    /* One alone first: libraries and locale are not the cost of a connection. */
    OK(etcd_probe(&args.root, targets, 1, answers, &e));
    etcd_probe_answer_done(&answers[0]);
    const long before_kib = memory_kib("VmHWM");
    const double began = seconds();
    OK(etcd_probe(&args.root, targets, args.n_endpoints, answers, &e));
    const double took = seconds() - began;
    int64_t answered = 0;
    for (size_t i = 0; i < args.n_endpoints; i++) {
        answered += answers[i].outcome == ETCD_PROBE_ANSWERED ? 1 : 0;
        etcd_probe_answer_done(&answers[i]);
    }
    report(took, answered, (double)(memory_kib("VmHWM") - before_kib));
    free(targets);
    free(answers);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } verbs[] = {{"fill", fill},
                 {"status", status},
                 {"snapshot", snapshot},
                 {"hold", hold},
                 {"probe", probe}};
    mem_setup(); /* as raftsman does */
    etcd_args_init(&args, argc, (const char *const *)argv);
    const bool probing = args.n_words > 0 && strcmp(args.words[0], "probe") == 0;
    c = probing ? NULL : etcd_args_client(&args);
    bool ran = false;
    for (size_t i = 0; i < COUNT_OF(verbs) && args.n_words > 0; i++)
        if (strcmp(verbs[i].name, args.words[0]) == 0) {
            verbs[i].run();
            ran = true;
        }
    etcd_client_free(c);
    etcd_args_done(&args);
    return ran ? 0 : 2;
}
