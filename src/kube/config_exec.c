/* SPDX-License-Identifier: Apache-2.0
 * The child is its own process group, so that a wrapper script is killed together with what it
 * started. It inherits standard error only as a pipe we read: what it prints there may hold
 * anything, so it is cut and redacted before it reaches a message. */
#include "kube/config_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/vec.h"

enum { SHOWN_MAX = 2 * EXEC_ERROR_MAX };

static const char *const versions[] = {"client.authentication.k8s.io/v1",
                                       "client.authentication.k8s.io/v1beta1"};

void exec_credential_done(struct exec_credential *c)
{
    secret_free(TAKE(c->token));
    secret_free(TAKE(c->cert_pem));
    secret_free(TAKE(c->key_pem));
    c->expires_us = 0;
}

int exec_check(const json_t *spec, struct err *e)
{
    const char *command = NULL, *version = NULL;
    if (jneed_str(spec, "command", &command, e) < 0 ||
        jneed_str(spec, "apiVersion", &version, e) < 0)
        return -1;
    if (command[0] == '\0')
        return err_set(e, ERR_INVALID, 0, "command is empty");
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(versions); i++)
        known = known || strcmp(version, versions[i]) == 0;
    if (!known)
        return err_set(e, ERR_INVALID, 0, "apiVersion %s is not supported, use %s", version,
                       versions[0]);
    if (strcmp(jstr(spec, "interactiveMode", ""), "Always") == 0)
        return err_set(e, ERR_INVALID, 0,
                       "interactiveMode Always cannot work: there is no terminal to ask at");
    return 0;
}

/* --- Running --- */

struct words {
    VEC(char *) list; /* ends in NULL when handed over */
};

static void words_done(struct words *w)
{
    for (size_t i = 0; i < w->list.n; i++)
        if (w->list.v[i])
            secret_free(w->list.v[i]);
    vec_done(&w->list);
}

static int arguments_of(const json_t *spec, struct words *argv, struct err *e)
{
    vec_push(&argv->list, xstrdup(jstr(spec, "command", "")));
    size_t i = 0;
    json_t *arg = NULL;
    json_array_foreach(jget(spec, "args"), i, arg)
    {
        if (!json_is_string(arg))
            return err_set(e, ERR_INVALID, 0, "args.%zu is no string", i);
        vec_push(&argv->list, xstrdup(json_string_value(arg)));
    }
    vec_push(&argv->list, NULL);
    return 0;
}

static int exec_info(const json_t *spec, const json_t *cluster, char **out, struct err *e)
{
    const bool tell = jbool(spec, "provideClusterInfo", false) && cluster;
    json_auto_t *info =
        JOBJ(J("apiVersion", js(jstr(spec, "apiVersion", ""))), J("kind", js("ExecCredential")),
             J("spec",
               JOBJ(J("interactive", jb(false)), J_IF(tell, "cluster", json_deep_copy(cluster)))));
    auto_buf struct buf text = BUF_INIT(EXEC_OUTPUT_MAX);
    if (jdump(info, &text, e) < 0)
        return -1;
    *out = buf_take(&text);
    return 0;
}

static bool same_variable(const char *a, const char *b)
{
    const size_t n = strcspn(a, "=");
    return strncmp(a, b, n + 1) == 0;
}

static void set_variable(struct words *env, char *take_pair)
{
    for (size_t i = 0; i < env->list.n; i++) {
        if (!same_variable(take_pair, env->list.v[i]))
            continue;
        secret_free(env->list.v[i]);
        env->list.v[i] = take_pair;
        return;
    }
    vec_push(&env->list, take_pair);
}

static int environment_of(const json_t *spec, const json_t *cluster, struct words *env,
                          struct err *e)
{
    for (char **at = environ; *at; at++)
        vec_push(&env->list, xstrdup(*at));
    size_t i = 0;
    json_t *pair = NULL;
    json_array_foreach(jget(spec, "env"), i, pair)
    {
        const char *name = jstr(pair, "name", ""), *value = jstr(pair, "value", "");
        if (name[0] == '\0' || strchr(name, '='))
            return err_set(e, ERR_INVALID, 0, "env.%zu has no usable name", i);
        set_variable(env, xasprintf("%s=%s", name, value));
    }
    auto_free char *info = NULL;
    if (exec_info(spec, cluster, &info, e) < 0)
        return -1;
    set_variable(env, xasprintf("KUBERNETES_EXEC_INFO=%s", info));
    vec_push(&env->list, NULL);
    return 0;
}

struct child {
    pid_t pid; /* 0: not started, or collected */
    int pidfd, out, err;
};

static void child_done(struct child *c)
{
    if (c->pid > 0) {
        (void)kill(-c->pid, SIGKILL); /* gone already is as good */
        (void)kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close_auto(&c->pidfd);
    close_auto(&c->out);
    close_auto(&c->err);
}

static int spawn(const struct words *argv, const struct words *env, int out, int err, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, usual;
    (void)sigemptyset(&none);
    (void)sigfillset(&usual);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setsigdefault(&attr, &usual);
        (void)posix_spawnattr_setpgroup(&attr, 0);
        rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
        if (rc == 0)
            rc = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&files, out, 1);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&files, err, 2);
        if (rc == 0) /* libcurl's sockets are not all close-on-exec */
            rc = posix_spawn_file_actions_addclosefrom_np(&files, 3);
        if (rc == 0)
            rc = posix_spawnp(pid, argv->list.v[0], &files, &attr, argv->list.v, env->list.v);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    return rc;
}

static int start(const json_t *spec, const json_t *cluster, struct child *c, struct err *e)
{
    AUTO(words_done) struct words argv = {0};
    AUTO(words_done) struct words env = {0};
    if (arguments_of(spec, &argv, e) < 0 || environment_of(spec, cluster, &env, e) < 0)
        return -1;
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set_errno(e, errno, "pipe");
    c->out = out[0];
    auto_close int out_w = out[1];
    if (pipe2(err, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set_errno(e, errno, "pipe");
    c->err = err[0];
    auto_close int err_w = err[1];
    /* The plugin's ends block, as it expects; only ours do not. */
    (void)fcntl(out_w, F_SETFL, 0);
    (void)fcntl(err_w, F_SETFL, 0);

    const int rc = spawn(&argv, &env, out_w, err_w, &c->pid);
    if (rc != 0) {
        c->pid = 0;
        const char *hint = jstr(spec, "installHint", "");
        return err_set_errno(e, rc, "run it%s%s%s", hint[0] != '\0' ? " (" : "", hint,
                             hint[0] != '\0' ? ")" : "");
    }
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    return c->pidfd < 0 ? err_set_errno(e, errno, "pidfd_open") : 0;
}

enum drained { DRAIN_MORE, DRAIN_END, DRAIN_FULL };

/* With `cut`, what does not fit is read and forgotten: closing the pipe could kill the plugin. */
static enum drained drain(int fd, struct buf *into, bool cut)
{
    for (;;) {
        char piece[4096];
        const ssize_t n = read(fd, piece, sizeof(piece));
        if (n < 0 && errno == EINTR)
            continue;
        const struct str got = {piece, n > 0 ? (size_t)n : 0};
        const bool fits = buf_add_str(into, cut ? str_first(got, into->max - into->n) : got);
        explicit_bzero(piece, sizeof(piece));
        if (!fits)
            return DRAIN_FULL;
        if (n < 0)
            return errno == EAGAIN ? DRAIN_MORE : DRAIN_END;
        if (n == 0)
            return DRAIN_END;
    }
}

/* Until it exited. What it left running may hold the pipes open: that is not waited for. */
static int collect(const struct ctx *ctx, struct child *c, struct buf *out, struct buf *err,
                   int *status, struct err *e)
{
    for (bool exited = false; !exited;) {
        struct pollfd fds[3] = {{.fd = c->pidfd, .events = POLLIN},
                                {.fd = c->out, .events = POLLIN},
                                {.fd = c->err, .events = POLLIN}};
        if (ctx_poll(ctx, fds, COUNT_OF(fds), -1, e) < 0)
            return -1;
        exited = fds[0].revents != 0;
        const enum drained drained = c->out >= 0 ? drain(c->out, out, false) : DRAIN_END;
        if (drained == DRAIN_FULL)
            return err_set(e, ERR_TOO_BIG, 0, "it printed more than %d bytes", EXEC_OUTPUT_MAX);
        if (drained == DRAIN_END) {
            close_auto(&c->out);
            c->out = -1;
        }
        if (c->err >= 0 && drain(c->err, err, true) != DRAIN_MORE) {
            close_auto(&c->err);
            c->err = -1;
        }
    }
    while (waitpid(c->pid, status, 0) < 0)
        if (errno != EINTR)
            return err_set_errno(e, errno, "wait for it");
    c->pid = 0;
    return 0;
}

static int failed(int status, const struct buf *err, struct err *e)
{
    auto_buf struct buf shown = BUF_INIT(SHOWN_MAX);
    (void)redact_text(&shown, str_trim(buf_str(err)));
    const bool said = shown.n > 0;
    if (WIFSIGNALED(status))
        return err_set(e, ERR_DENIED, 0, "it was ended by signal %d%s%s", WTERMSIG(status),
                       said ? ": " : "", buf_cstr(&shown));
    return err_set(e, ERR_DENIED, 0, "it ended with code %d%s%s", WEXITSTATUS(status),
                   said ? ": " : "", buf_cstr(&shown));
}

/* --- Reading what it printed --- */

static char *dup_or_null(const char *s)
{
    return s && s[0] != '\0' ? xstrdup(s) : NULL;
}

static int credential_of(const json_t *answer, const char *version, struct exec_credential *out,
                         struct err *e)
{
    if (strcmp(jstr(answer, "kind", ""), "ExecCredential") != 0)
        return err_set(e, ERR_INVALID, 0, "it did not print an ExecCredential");
    if (strcmp(jstr(answer, "apiVersion", ""), version) != 0)
        return err_set(e, ERR_INVALID, 0, "it answered in version %s, asked for %s",
                       jstr(answer, "apiVersion", "(none)"), version);
    json_t *status = NULL;
    if (jneed_obj(answer, "status", &status, e) < 0)
        return -1;
    struct exec_credential c = {0};
    const char *expires = jstr(status, "expirationTimestamp", NULL);
    if (expires && time_parse(str_c(expires), &c.expires_us, e) < 0)
        return err_wrap(e, "status.expirationTimestamp");
    c.token = dup_or_null(jstr(status, "token", NULL));
    c.cert_pem = dup_or_null(jstr(status, "clientCertificateData", NULL));
    c.key_pem = dup_or_null(jstr(status, "clientKeyData", NULL));
    if (!c.cert_pem != !c.key_pem || (!c.token && !c.cert_pem)) {
        exec_credential_done(&c);
        return err_set(e, ERR_INVALID, 0, "it gave neither a token nor a certificate with its key");
    }
    *out = c;
    return 0;
}

static int run(const struct ctx *ctx, const json_t *spec, const json_t *cluster,
               struct exec_credential *out, struct err *e)
{
    AUTO(child_done) struct child c = {.pidfd = -1, .out = -1, .err = -1};
    AUTO(buf_wipe) struct buf printed = BUF_INIT(EXEC_OUTPUT_MAX);
    auto_buf struct buf complained = BUF_INIT(EXEC_ERROR_MAX);
    int status = 0;
    if (start(spec, cluster, &c, e) < 0 || collect(ctx, &c, &printed, &complained, &status, e) < 0)
        return -1;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return failed(status, &complained, e);
    json_auto_t *answer = NULL;
    if (jparse(buf_str(&printed), &answer, e) < 0)
        return err_set(e, ERR_INVALID, 0, "it did not print JSON"); /* not what it printed */
    return credential_of(answer, jstr(spec, "apiVersion", ""), out, e);
}

int exec_run(const struct ctx *ctx, const json_t *spec, const json_t *cluster,
             struct exec_credential *out, struct err *e)
{
    const struct ctx bounded = ctx_with_timeout(ctx, EXEC_TIMEOUT_MS);
    if (exec_check(spec, e) < 0)
        return err_wrap(e, "exec");
    if (run(&bounded, spec, cluster, out, e) < 0)
        return err_wrap(e, "credential plugin %s", jstr(spec, "command", ""));
    return 0;
}
