/* SPDX-License-Identifier: Apache-2.0
 * Buffers are released between records (SSL_MODE_RELEASE_BUFFERS): an idle connection costs the
 * SSL object and the peer's chain, not two 17 KiB buffers. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/endpoint.h"

enum { SEND_RECORD_BYTES = 4096 };

struct tls_client {
    atomic_int refs;
    SSL_CTX *ctx;
};

struct tls {
    struct tls_client *client;
    SSL *ssl;
    const char *alpn; /* a constant of the caller */
    bool up;          /* handshake done, ALPN checked */
    bool broken;      /* no goodbye possible */
};

static void bio_auto(BIO **b)
{
    BIO_free(*b);
}

static void x509_auto(X509 **x)
{
    X509_free(*x);
}

static void pkey_auto(EVP_PKEY **k)
{
    EVP_PKEY_free(*k);
}

static int fail(struct err *e, enum err_code code, const char *what)
{
    const unsigned long why = ERR_peek_error();
    const char *text = why ? ERR_reason_error_string(why) : NULL;
    err_set(e, code, why ? ERR_GET_REASON(why) : 0, "%s%s%s", what, text ? ": " : "",
            text ? text : "");
    (void)snprintf(e->reason, sizeof(e->reason), TLS_REASON);
    ERR_clear_error();
    return -1;
}

/* A PEM that asks for a passphrase must fail, not prompt on the terminal. */
static int no_passphrase(char *into, int size, int rwflag, void *arg)
{
    (void)into;
    (void)size;
    (void)rwflag;
    (void)arg;
    return -1;
}

static BIO *bio_of(struct str pem)
{
    return BIO_new_mem_buf(pem.n > 0 ? pem.p : "", (int)pem.n);
}

static int load_ca(SSL_CTX *ctx, struct str pem, struct err *e)
{
    AUTO(bio_auto) BIO *in = bio_of(pem);
    size_t n = 0;
    for (;; n++) {
        AUTO(x509_auto) X509 *x = PEM_read_bio_X509(in, NULL, no_passphrase, NULL);
        if (!x)
            break;
        (void)X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), x); /* a duplicate is no harm */
    }
    const unsigned long why = ERR_peek_last_error();
    if (n == 0 || ERR_GET_REASON(why) != PEM_R_NO_START_LINE)
        return fail(e, ERR_INVALID, "CA certificate");
    ERR_clear_error();
    return 0;
}

static int load_identity(SSL_CTX *ctx, struct str cert_pem, struct str key_pem, struct err *e)
{
    AUTO(bio_auto) BIO *certs = bio_of(cert_pem);
    AUTO(x509_auto) X509 *own = PEM_read_bio_X509(certs, NULL, no_passphrase, NULL);
    if (!own || SSL_CTX_use_certificate(ctx, own) != 1)
        return fail(e, ERR_INVALID, "client certificate");
    for (X509 *x; (x = PEM_read_bio_X509(certs, NULL, no_passphrase, NULL));)
        if (SSL_CTX_add0_chain_cert(ctx, x) != 1) {
            X509_free(x);
            return fail(e, ERR_INVALID, "client certificate chain");
        }
    ERR_clear_error(); /* the end of the list is an "error" */
    AUTO(bio_auto) BIO *keys = bio_of(key_pem);
    AUTO(pkey_auto) EVP_PKEY *key = PEM_read_bio_PrivateKey(keys, NULL, no_passphrase, NULL);
    if (!key)
        return fail(e, ERR_INVALID, "client key");
    if (SSL_CTX_use_PrivateKey(ctx, key) != 1)
        return fail(e, ERR_INVALID, "client key and certificate");
    return 0;
}

int tls_client_new(const struct tls_client_options *o, struct tls_client **out, struct err *e)
{
    ERR_clear_error();
    AUTO(tls_client_unref_auto) struct tls_client *t = xcalloc(1, sizeof(*t));
    atomic_init(&t->refs, 1);
    t->ctx = SSL_CTX_new(TLS_client_method());
    if (!t->ctx || SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION) != 1)
        return fail(e, ERR_BUG, "TLS set-up");
    SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
    /* The write buffer is as large as a record may be, and our requests are small. */
    if (SSL_CTX_set_max_send_fragment(t->ctx, SEND_RECORD_BYTES) != 1)
        return fail(e, ERR_BUG, "TLS set-up");
    if (load_ca(t->ctx, o->ca_pem, e) < 0)
        return -1;
    if (o->cert_pem.n > 0 && load_identity(t->ctx, o->cert_pem, o->key_pem, e) < 0)
        return -1;
    *out = TAKE(t);
    return 0;
}

struct tls_client *tls_client_ref(struct tls_client *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void tls_client_unref(struct tls_client *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
        return;
    SSL_CTX_free(t->ctx);
    free(t);
}

struct tls *tls_new(struct tls_client *t, int fd, const char *server_name, const char *alpn)
{
    struct tls *s = xcalloc(1, sizeof(*s));
    *s = (struct tls){.client = tls_client_ref(t), .ssl = SSL_new(t->ctx), .alpn = alpn};
    unsigned char offer[32] = {(unsigned char)strlen(alpn)};
    memcpy(offer + 1, alpn, offer[0]);
    X509_VERIFY_PARAM *want = s->ssl ? SSL_get0_param(s->ssl) : NULL;
    bool ok = s->ssl && SSL_set_fd(s->ssl, fd) == 1 &&
              SSL_set_alpn_protos(s->ssl, offer, offer[0] + 1U) == 0;
    if (ok && host_is_address(server_name)) {
        ok = X509_VERIFY_PARAM_set1_ip_asc(want, server_name) == 1;
    } else if (ok) {
        X509_VERIFY_PARAM_set_hostflags(want, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        ok = X509_VERIFY_PARAM_set1_host(want, server_name, 0) == 1 &&
             SSL_set_tlsext_host_name(s->ssl, server_name) == 1;
    }
    if (!ok) /* out of memory: every input was checked before */
        abort();
    return s;
}

void tls_free(struct tls *s)
{
    if (!s)
        return;
    if (s->up && !s->broken)
        (void)SSL_shutdown(s->ssl); /* one close_notify, if the socket takes it */
    ERR_clear_error();
    SSL_free(s->ssl);
    tls_client_unref(s->client);
    free(s);
}

/* The one place that reads OpenSSL's verdict on a call that did not succeed. */
static int judge(struct tls *s, int rc, enum tls_want *want, struct err *e)
{
    const int sys = errno;
    switch (SSL_get_error(s->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        *want = TLS_WANT_READ;
        return 0;
    case SSL_ERROR_WANT_WRITE:
        *want = TLS_WANT_WRITE;
        return 0;
    default:
        break;
    }
    s->broken = true;
    const long verify = SSL_get_verify_result(s->ssl);
    const int reason = ERR_GET_REASON(ERR_peek_error());
    if (verify != X509_V_OK) {
        ERR_clear_error();
        fail(e, ERR_DENIED, X509_verify_cert_error_string(verify));
        return err_wrap(e, "server certificate");
    }
    if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        const int alert = reason - SSL_AD_REASON_OFFSET;
        const bool ours = (alert >= SSL3_AD_NO_CERTIFICATE && alert <= SSL_AD_ACCESS_DENIED) ||
                          alert == TLS13_AD_CERTIFICATE_REQUIRED;
        return fail(e, ours ? ERR_DENIED : ERR_UNAVAILABLE, "server refused");
    }
    if (s->up && (ERR_peek_error() == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
        /* Cut without a goodbye: a dead server, not wrong TLS. */
        ERR_clear_error();
        err_set_errno(e, sys ? sys : ECONNRESET, "connection lost");
        e->code = ERR_UNAVAILABLE;
        return -1;
    }
    if (ERR_peek_error() == 0) {
        err_set_errno(e, sys ? sys : ECONNRESET, "TLS");
        e->code = ERR_UNAVAILABLE;
        return -1;
    }
    return fail(e, ERR_UNAVAILABLE, "TLS");
}

static int check_alpn(struct tls *s, struct err *e)
{
    const unsigned char *got = NULL;
    unsigned n = 0;
    SSL_get0_alpn_selected(s->ssl, &got, &n);
    if (str_eq((struct str){(const char *)got, n}, str_c(s->alpn)))
        return 0;
    ERR_clear_error();
    s->broken = true;
    fail(e, ERR_UNAVAILABLE, "server did not agree to HTTP/2");
    return -1;
}

int tls_handshake(struct tls *s, enum tls_want *want, struct err *e)
{
    ERR_clear_error();
    errno = 0;
    const int rc = SSL_connect(s->ssl);
    if (rc != 1) {
        if (judge(s, rc, want, e) < 0)
            return err_wrap(e, "TLS handshake");
        return 0;
    }
    if (check_alpn(s, e) < 0)
        return -1;
    s->up = true;
    *want = TLS_DONE;
    return 0;
}

int tls_read(struct tls *s, void *into, size_t cap, size_t *n, enum tls_want *want, struct err *e)
{
    ERR_clear_error();
    errno = 0;
    *n = 0;
    *want = TLS_DONE;
    const int rc = SSL_read_ex(s->ssl, into, cap, n);
    if (rc == 1)
        return 0;
    if (SSL_get_error(s->ssl, rc) == SSL_ERROR_ZERO_RETURN)
        return 0;
    return judge(s, rc, want, e);
}

int tls_write(struct tls *s, const void *bytes, size_t len, size_t *n, enum tls_want *want,
              struct err *e)
{
    ERR_clear_error();
    errno = 0;
    *n = 0;
    *want = TLS_DONE;
    const int rc = SSL_write_ex(s->ssl, bytes, len, n);
    return rc == 1 ? 0 : judge(s, rc, want, e);
}
