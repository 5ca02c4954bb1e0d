/* SPDX-License-Identifier: Apache-2.0
 * Single attempts and long runs for the fault tests. Each prints one JSON line saying what came
 * out and how long it took; the Python test is the judge. Ends with 0 unless it is misused.
 *
 *     etcd_try get|put|delete|status|members|defrag|snapshot|lease|probe KEY [options]
 *     etcd_try probe --count N          so many rounds, each with a new login
 *     etcd_try write --count N          keep writing, whatever happens to the server, until N
 *                                       events are written and standard input has ended
 *     etcd_try write-large --count N    so many transactions of 1.2 MB
 *     etcd_try follow --rev R --count N watch everything from R to revision N
 *     etcd_try slow-watch, slow-snapshot, token-expiry, second-call, second-get
 *     etcd_try put-too-late, put-canceled  after a call that worked
 *     etcd_try add-learner|add-voter PEER-URL, promote|remove ID */
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json.h"
#include "etcd/cluster.h"
#include "etcd/kv.h"
#include "etcd/lease.h"
#include "etcd/maintenance.h"
#include "etcd/probe.h"
#include "etcd/watch.h"
#include "etcd_args.h"

static struct etcd_args args;
static struct ctx ctx;
static struct etcd_client *c;
static int64_t started_ms;

static void print(json_t *take_value)
{
    struct err e;
    auto_buf struct buf line = BUF_INIT(1 << 20);
    OK(jdump(take_value, &line, &e));
    json_decref(take_value);
    (void)printf("%s\n", buf_cstr(&line));
    (void)fflush(stdout);
}

static json_t *outcome(int rc, const struct err *e)
{
    return JOBJ(J("code", js(rc < 0 ? err_code_name(e->code) : "OK")),
                J("text", js(rc < 0 ? e->text : "")), J("reason", js(rc < 0 ? e->reason : "")),
                J("ms", ji(clock_boot_ms(&clock_real) - started_ms)));
}

static struct str key(void)
{
    return args.n_words > 1 ? str_c(args.words[1]) : STR("key");
}

static int discard(void *arg, struct str bytes, struct err *e)
{
    (void)e;
    *(uint64_t *)arg += bytes.n;
    return 0;
}

static int try_get(struct err *e)
{
    struct etcd_kvs kvs = {0};
    const int rc = etcd_get(&ctx, c, &(struct etcd_range){.key = key()}, &kvs, e);
    etcd_kvs_done(&kvs);
    return rc;
}

static int try_put(struct err *e)
{
    return etcd_put(&ctx, c, &(struct etcd_put){.key = key(), .value = STR("value")}, NULL, e);
}

static int try_delete(struct err *e)
{
    return etcd_delete(&ctx, c, &(struct etcd_delete){.key = key()}, NULL, e);
}

static int try_status(struct err *e)
{
    struct etcd_status s = {0};
    const int rc = etcd_status(&ctx, c, 0, &s, e);
    etcd_status_done(&s);
    return rc;
}

static int try_members(struct err *e)
{
    struct etcd_members m = {0};
    const int rc = etcd_member_list(&ctx, c, true, &m, e);
    etcd_members_done(&m);
    return rc;
}

static int try_defrag(struct err *e)
{
    return etcd_defragment(&ctx, c, 0, e);
}

static int try_snapshot(struct err *e)
{
    uint64_t bytes = 0;
    struct etcd_snapshot s;
    return etcd_snapshot(&ctx, c, 0, discard, &bytes, &s, e);
}

static int write_slowly(void *arg, struct str bytes, struct err *e)
{
    return ctx_sleep(&args.root, 20, e) < 0 ? -1 : discard(arg, bytes, e);
}

static int try_slow_snapshot(struct err *e)
{
    uint64_t bytes = 0;
    struct etcd_snapshot s;
    return etcd_snapshot(&ctx, c, 0, write_slowly, &bytes, &s, e);
}

/* The ID goes ahead on a line of its own. */
static int add_member(bool learner, struct err *e)
{
    uint64_t id = 0;
    const int rc = etcd_member_add(&ctx, c, args.words[1], learner, &id, NULL, e);
    if (rc == 0)
        (void)printf("%llx\n", (unsigned long long)id);
    return rc;
}

static int try_add_learner(struct err *e)
{
    return add_member(true, e);
}

static int try_add_voter(struct err *e)
{
    return add_member(false, e);
}

static int try_promote(struct err *e)
{
    return etcd_member_promote(&ctx, c, strtoull(args.words[1], NULL, 16), e);
}

static int try_remove(struct err *e)
{
    return etcd_member_remove(&ctx, c, strtoull(args.words[1], NULL, 16), e);
}

static int try_lease(struct err *e)
{
    int64_t ttl_s = 0;
    struct etcd_keeper *k = etcd_keeper_new(c);
    const int rc = etcd_keeper_renew(&ctx, k, 1, &ttl_s, e);
    etcd_keeper_free(k);
    return rc;
}

static int try_watch(struct err *e)
{
    struct etcd_watch_batch b;
    struct etcd_watcher *w = etcd_watcher_new(c);
    (void)etcd_watch_add(w, &(struct etcd_watch){.key = key()});
    int rc = 0;
    while ((rc = etcd_watcher_next(&ctx, w, &b, e)) == 0 && b.n == 0)
        ;
    etcd_watcher_free(w);
    return rc;
}

/* A call that works, a pause in which the test breaks things, and a second call. */
static int try_second(int (*call)(struct err *e), struct err *e)
{
    if (try_get(e) < 0)
        return -1;
    (void)printf("first\n");
    (void)fflush(stdout);
    (void)getchar();
    started_ms = clock_boot_ms(&clock_real);
    ctx = ctx_with_timeout(&args.root, args.timeout_ms);
    return call(e);
}

static int try_second_call(struct err *e)
{
    return try_second(try_put, e);
}

static int try_second_get(struct err *e)
{
    return try_second(try_get, e);
}

static int try_put_too_late(struct err *e)
{
    if (try_get(e) < 0)
        return -1;
    ctx = ctx_with_timeout(&args.root, 0);
    return try_put(e);
}

static int try_put_canceled(struct err *e)
{
    struct cancel cancel;
    if (try_get(e) < 0 || cancel_init(&cancel, e) < 0)
        return -1;
    ctx = ctx_with_cancel(&args.root, &cancel);
    cancel_fire(&cancel);
    const int rc = try_put(e);
    cancel_done(&cancel);
    return rc;
}

static void probe_once(void)
{
    struct err e = {0};
    started_ms = clock_boot_ms(&clock_real);
    struct etcd_login login = {.user = args.user, .password = buf_cstr(&args.password)};
    struct etcd_probe_target *targets = xcalloc(args.n_endpoints, sizeof(*targets));
    struct etcd_probe_answer *answers = xcalloc(args.n_endpoints, sizeof(*answers));
    for (size_t i = 0; i < args.n_endpoints; i++)
        targets[i] = (struct etcd_probe_target){.endpoint = args.endpoints[i],
                                                .tls = args.tls,
                                                .cluster_id = args.cluster_id,
                                                .login = &login,
                                                .ask = ETCD_ASK_MEMBERS | ETCD_ASK_READ,
                                                .timeout_ms = args.timeout_ms};
    OK(etcd_probe(&args.root, targets, args.n_endpoints, answers, &e));
    json_t *list = json_array(), *reads = json_array(), *texts = json_array();
    for (size_t i = 0; i < args.n_endpoints; i++) {
        (void)json_array_append_new(list, js(etcd_probe_outcome_name(answers[i].outcome)));
        (void)json_array_append_new(reads, jb(answers[i].read.known == ETCD_FACT_YES));
        (void)json_array_append_new(texts, js(answers[i].err.text));
        etcd_probe_answer_done(&answers[i]);
    }
    etcd_login_done(&login);
    free(targets);
    free(answers);
    print(JOBJ(J("outcomes", list), J("reads", reads), J("texts", texts),
               J("ms", ji(clock_boot_ms(&clock_real) - started_ms))));
}

static void probe(void)
{
    int64_t round = 0;
    do
        probe_once();
    while (++round < args.count);
}

/* --- Long runs */

/* What is put at place k of n of a transaction says so, whatever follows. */
static void place(char *into, size_t size, size_t k, size_t n)
{
    const int used = snprintf(into, size, "%zu of %zu", k, n);
    if ((size_t)used + 1 < size)
        memset(into + used, ' ', size - (size_t)used);
}

/* Nobody writes to it: all that can be read is its end. */
static bool input_open(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) == 0;
}

static void write_all(void)
{
    enum { BATCH = 16 };
    struct err e = {0};
    int64_t acknowledged = 0, unknown = 0, unavailable = 0, last = 0;
    for (int64_t i = 0; i < args.count || input_open();) {
        char names[BATCH][32], values[BATCH][10];
        struct etcd_op ops[BATCH];
        const size_t n = i % 3 == 0 ? BATCH : 1;
        for (size_t k = 0; k < n; k++) {
            (void)snprintf(names[k], sizeof(names[k]), "k/%lld",
                           (long long)((i + (int64_t)k) % 997));
            place(values[k], sizeof(values[k]), k, n);
            ops[k] = (struct etcd_op){
                .type = ETCD_OP_PUT,
                .put = {.key = str_c(names[k]), .value = {values[k], sizeof(values[k])}}};
        }
        struct etcd_txn_result r = {0};
        const struct ctx brief = ctx_with_timeout(&args.root, 2000);
        if (etcd_txn(&brief, c, &(struct etcd_txn){.success = ops, .n_success = n}, &r, &e) == 0) {
            acknowledged += (int64_t)n;
            last = r.header.revision;
            i += (int64_t)n;
            etcd_txn_result_done(&r);
        } else {
            unknown += e.code == ERR_OUTCOME_UNKNOWN ? 1 : 0;
            unavailable += e.code == ERR_UNAVAILABLE ? 1 : 0;
            CHECK(e.code == ERR_OUTCOME_UNKNOWN || e.code == ERR_UNAVAILABLE);
            OK(ctx_sleep(&args.root, 20, &e));
        }
    }
    print(JOBJ(J("acknowledged", ji(acknowledged)), J("unknown", ji(unknown)),
               J("unavailable", ji(unavailable)), J("revision", ji(last))));
}

/* Transactions so large that a watch which missed a few gets them in fragments, cut anywhere. */
static void write_large(void)
{
    enum { BATCH = 100, BYTES = 12 * 1024 };
    struct err e = {0};
    char names[BATCH][32];
    struct etcd_op ops[BATCH];
    char(*values)[BYTES] = xcalloc(BATCH, BYTES);
    for (size_t k = 0; k < BATCH; k++) {
        (void)snprintf(names[k], sizeof(names[k]), "large/%zu", k);
        place(values[k], BYTES, k, BATCH);
        ops[k] = (struct etcd_op){.type = ETCD_OP_PUT,
                                  .put = {.key = str_c(names[k]), .value = {values[k], BYTES}}};
    }
    for (int64_t i = 0; i < args.count; i++) {
        struct etcd_txn_result r = {0};
        OK(etcd_txn(&ctx, c, &(struct etcd_txn){.success = ops, .n_success = BATCH}, &r, &e));
        etcd_txn_result_done(&r);
    }
    free(values);
    print(JOBJ(J("events", ji(args.count * BATCH))));
}

/* Inside a revision the events are those of its transaction, each once and in its place. */
struct places {
    int64_t revision;
    unsigned long next, of;
    int64_t wrong;
};

static void places_end(struct places *p)
{
    p->wrong += p->next != p->of ? 1 : 0;
    p->next = p->of = 0;
}

static void places_event(struct places *p, const struct etcd_kv *kv)
{
    char text[32];
    unsigned long k = 0, n = 1; /* not one of ours: alone in its revision */
    (void)snprintf(text, sizeof(text), "%.*s", STR_ARG(str_first(kv->value, sizeof(text) - 1)));
    if (sscanf(text, "%lu of %lu", &k, &n) != 2) /* NOLINT(cert-err34-c): our own small numbers */
        k = 0, n = 1;
    if (kv->mod_revision != p->revision) {
        places_end(p);
        p->revision = kv->mod_revision;
        p->of = n;
    }
    p->wrong += k != p->next || n != p->of ? 1 : 0;
    p->next = k + 1;
}

/* Every revision has at least one event, so the revisions of a watch of everything are without
 * holes. */
static void follow(void)
{
    struct err e = {0};
    struct etcd_watch_batch b;
    struct etcd_watcher *w = etcd_watcher_new(c);
    const struct etcd_watch all = {
        .key = STR("\0"), .end = STR("\0"), .start_revision = args.revision};
    (void)etcd_watch_add(w, &all);
    int64_t next = args.revision, events = 0, holes = 0, repeats = 0, expired = 0, partial = 0;
    struct places places = {0};
    while (next <= args.count) {
        const struct ctx patience = ctx_with_timeout(&args.root, args.timeout_ms);
        if (etcd_watcher_next(&patience, w, &b, &e) < 0) {
            if (e.code != ERR_EXPIRED)
                break;
            CHECK(b.watch != 0 && b.compact_revision >= next && strstr(e.text, "compacted"));
            expired++;
            places = (struct places){.wrong = places.wrong}; /* the rest of it is gone */
            next = b.compact_revision;
            struct etcd_watch again = all;
            again.start_revision = next;
            (void)etcd_watch_add(w, &again);
            continue;
        }
        for (size_t i = 0; i < b.n; i++) {
            const struct etcd_kv *kv = &b.v[i].kv;
            holes += kv->mod_revision > next ? 1 : 0;
            repeats += kv->mod_revision < next - 1 ? 1 : 0;
            next = kv->mod_revision + 1;
            places_event(&places, kv);
            events++;
        }
        partial += b.partial && places.next != places.of ? 1 : 0;
    }
    etcd_watcher_free(w);
    if (next <= args.count || places.next == places.of)
        places_end(&places);
    print(JOBJ(J("events", ji(events)), J("holes", ji(holes)), J("repeats", ji(repeats)),
               J("misplaced", ji(places.wrong)), J("partial", ji(partial)),
               J("expired", ji(expired)), J("next", ji(next)),
               J("error", js(next <= args.count ? e.text : ""))));
}

/* A watch nobody reads, on a connection that other calls keep busy. */
static void slow_watch(void)
{
    struct err e = {0};
    struct etcd_watch_batch b;
    struct etcd_watcher *w = etcd_watcher_new(c);
    (void)etcd_watch_add(
        w, &(struct etcd_watch){.key = STR("\0"), .end = STR("\0"), .start_revision = 1});
    OK(etcd_watcher_next(&ctx, w, &b, &e));
    struct rusage before, after;
    (void)getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 400; i++) {
        OK(try_get(&e));
        OK(ctx_sleep(&ctx, 2, &e));
    }
    (void)getrusage(RUSAGE_SELF, &after);
    int64_t bytes = 0, events = 0;
    while (events < args.count) {
        OK(etcd_watcher_next(&ctx, w, &b, &e));
        for (size_t i = 0; i < b.n; i++)
            bytes += (int64_t)b.v[i].kv.value.n;
        events += (int64_t)b.n;
    }
    etcd_watcher_free(w);
    print(JOBJ(J("events", ji(events)), J("bytes", ji(bytes)),
               J("rss", ji((after.ru_maxrss - before.ru_maxrss) * 1024))));
}

/* The token dies while a stream is open and nobody uses it. */
static void token_expiry(void)
{
    struct err e = {0};
    struct etcd_watch_batch b;
    struct etcd_watcher *w = etcd_watcher_new(c);
    const int64_t first = etcd_watch_add(w, &(struct etcd_watch){.key = STR("few/1")});
    OK(etcd_watcher_next(&ctx, w, &b, &e));
    CHECK(b.kind == ETCD_WATCH_CREATED);
    OK(ctx_sleep(&ctx, args.count, &e));
    const int64_t second = etcd_watch_add(w, &(struct etcd_watch){.key = STR("few/2")});
    do
        OK(etcd_watcher_next(&ctx, w, &b, &e));
    while (b.watch != second);
    CHECK(b.kind == ETCD_WATCH_CREATED);
    OK(ctx_sleep(&ctx, args.count, &e));
    OK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("few/1"), .value = STR("x")}, NULL, &e));
    OK(etcd_watcher_next(&ctx, w, &b, &e));
    CHECK(b.watch == first && b.n == 1);
    etcd_watcher_free(w);
    print(outcome(0, &e));
}

static const struct {
    const char *name;
    int (*attempt)(struct err *e);
    void (*run)(void);
} verbs[] = {
    {"get", try_get, NULL},
    {"put", try_put, NULL},
    {"delete", try_delete, NULL},
    {"status", try_status, NULL},
    {"members", try_members, NULL},
    {"defrag", try_defrag, NULL},
    {"snapshot", try_snapshot, NULL},
    {"slow-snapshot", try_slow_snapshot, NULL},
    {"add-learner", try_add_learner, NULL},
    {"add-voter", try_add_voter, NULL},
    {"promote", try_promote, NULL},
    {"remove", try_remove, NULL},
    {"lease", try_lease, NULL},
    {"watch", try_watch, NULL},
    {"second-call", try_second_call, NULL},
    {"second-get", try_second_get, NULL},
    {"put-too-late", try_put_too_late, NULL},
    {"put-canceled", try_put_canceled, NULL},
    {"probe", NULL, probe},
    {"write", NULL, write_all},
    {"write-large", NULL, write_large},
    {"follow", NULL, follow},
    {"slow-watch", NULL, slow_watch},
    {"token-expiry", NULL, token_expiry},
};

int main(int argc, char **argv)
{
    json_setup();
    etcd_args_init(&args, argc, (const char *const *)argv);
    c = etcd_args_client(&args);
    started_ms = clock_boot_ms(&clock_real);
    ctx = ctx_with_timeout(&args.root, args.timeout_ms);
    bool ran = false;
    for (size_t i = 0; i < COUNT_OF(verbs) && args.n_words > 0; i++) {
        if (strcmp(verbs[i].name, args.words[0]) != 0)
            continue;
        ran = true;
        if (verbs[i].run) {
            verbs[i].run();
            continue;
        }
        struct err e = {0};
        const int rc = verbs[i].attempt(&e);
        print(outcome(rc, &e));
    }
    etcd_client_free(c);
    etcd_args_done(&args);
    return ran ? 0 : 2;
}
