/* The way to the server: its URL, the lookup, the connection, the user that has logged in, and how long a round trip
 * takes. */
#include "diagnose/exam.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_S 86400

static double shown_ms(int64_t us)
{
    return (double)us / 1000;
}

void hlk_check_url(const struct hlk_exam *exam, struct hlk_found *found)
{
    hlk_found_set(found, HLK_FINDING_OK, "%s", exam->url->shown);
    if (exam->url->kind == HLK_URL_LOCAL)
        hlk_found_meaning(found, "A private server of this user on this host. It excludes no other host or user.");
    else
        hlk_found_meaning(found, "All users of the same locks have to reach this server, and this database of it.");
}

void hlk_check_sentinels(const struct hlk_exam *exam, struct hlk_found *found)
{
    const struct hlk_exam_sentinels *sentinels = &exam->sentinels;
    found->applies = exam->url->kind == HLK_URL_SENTINEL;
    if (!found->applies)
        return;
    hlk_found_meaning(found, "They name the master, where all locks are. One that answers is enough to find it.");
    if (sentinels->answered == 0) {
        hlk_found_set(found, HLK_FINDING_PROBLEM, "none of %u answers: %s", sentinels->asked, sentinels->why);
        hlk_found_meaning(found, "No client can be opened. One that is open stays with the master that it knows.");
        hlk_found_advice(found, "See whether the Sentinels run, and whether they need a password of their own.");
    } else if (sentinels->know == 0) {
        hlk_found_set(found, HLK_FINDING_PROBLEM, "%u of %u answer, and none knows \"%s\"", sentinels->answered,
                      sentinels->asked, exam->url->service);
        hlk_found_meaning(found, "No client can be opened: where the master is is not known.");
        hlk_found_advice(found, "Correct the service in the URL: `SENTINEL MASTERS` lists them.");
    } else if (sentinels->differ) {
        hlk_found_set(found, HLK_FINDING_WARNING, "they name different masters, %s:%d among them", sentinels->host,
                      sentinels->port);
        hlk_found_meaning(found, "A failover is going on, or they are cut off from each other: then two masters accept "
                                 "locks, and two may hold.");
        hlk_found_advice(found, "Run this again. If it stays so, look at the network between the Sentinels.");
    } else {
        bool all = sentinels->know == sentinels->asked;
        hlk_found_set(found, all ? HLK_FINDING_OK : HLK_FINDING_WARNING, "%u of %u name %s:%d%s%s", sentinels->know,
                      sentinels->asked, sentinels->host, sentinels->port, *sentinels->why ? "; " : "", sentinels->why);
        if (!all)
            hlk_found_advice(found, "Start the others, or take them out of the URL: a failover needs a majority.");
    }
}

void hlk_check_lookup(const struct hlk_exam *exam, struct hlk_found *found)
{
    found->applies = exam->lookup_us >= 0;
    if (!found->applies)
        return;
    bool slow = exam->lookup_us > 1000000;
    hlk_found_set(found, slow ? HLK_FINDING_WARNING : HLK_FINDING_OK, "%u address%s in %.1f ms", exam->addresses,
                  exam->addresses == 1 ? "" : "es", shown_ms(exam->lookup_us));
    hlk_found_meaning(found, "The name is looked up for each new connection. While a lookup takes longer than a "
                             "lease, no lock is renewed after a break.");
    if (slow)
        hlk_found_advice(found, "Look for a DNS server that does not answer in /etc/resolv.conf, or use an address.");
}

void hlk_check_connection(const struct hlk_exam *exam, struct hlk_found *found)
{
    bool slow = exam->connect_us > 1000000, silent = exam->silent_hosts > 0;
    hlk_found_set(found, slow || silent ? HLK_FINDING_WARNING : HLK_FINDING_OK,
                  "connected and logged in within %.1f ms", shown_ms(exam->connect_us));
    hlk_found_meaning(found,
                      "After a break all locks of a process wait for a new connection. A lease of %.3g s is "
                      "renewed each %.3g s.",
                      shown_ms(exam->lease_ms), shown_ms(exam->lease_ms / 3));
    if (silent)
        hlk_text_add(&found->measured, "; %u of the URL's hosts did not answer before", exam->silent_hosts);
    if (slow || silent)
        hlk_found_advice(found, "Look at the network between this host and the server, and at the server's load.");
}

static void judge_certificate(const struct hlk_tls_facts *tls, struct hlk_found *found)
{
    if (tls->expires_s == INT64_MAX) {
        hlk_found_set(found, HLK_FINDING_OK, "%s", tls->version);
        return;
    }
    bool soon = tls->expires_s < 14 * DAY_S;
    hlk_found_set(found, soon ? HLK_FINDING_WARNING : HLK_FINDING_OK,
                  "%s, the server's certificate is valid for %" PRId64 " days more", tls->version,
                  tls->expires_s / DAY_S);
    if (soon)
        hlk_found_advice(found, "Renew the server's certificate: new connections are refused when it has expired.");
}

void hlk_check_tls(const struct hlk_exam *exam, struct hlk_found *found)
{
    if (*exam->tls.version) {
        judge_certificate(&exam->tls, found);
        hlk_found_meaning(found, "Nobody on the way reads the password, or forges an answer that gives a lock away.");
    } else if (exam->same_host) {
        hlk_found_set(found, HLK_FINDING_OK, "none: plain text, within this host");
        hlk_found_meaning(found, "Nothing leaves this host.");
    } else {
        hlk_found_set(found, HLK_FINDING_WARNING, "none: plain text, over a network");
        hlk_found_meaning(found, "Hosts on the way can read the password, and take, break and forge locks.");
        hlk_found_advice(found, "Use rediss:// and a server with TLS, or a network that is trusted in full.");
    }
}

void hlk_check_login(const struct hlk_exam *exam, struct hlk_found *found)
{
    bool password = exam->has_password;
    hlk_found_set(found, HLK_FINDING_OK, "user %s, %s", exam->user,
                  password ? "with a password" : "without a password");
    hlk_found_meaning(found, "The rights of this user decide which locks it may use.");
    if (password || exam->same_host)
        return;
    found->level = HLK_FINDING_WARNING;
    hlk_found_meaning(found, "Every host that reaches the server may take, break and forge locks.");
    hlk_found_advice(found, "Give the locks a user of their own with a password: docs/acl.md has its line.");
}

/* What the round trip is compared with: a lock costs two of them, and a renewal has two thirds of the lease. */
void hlk_check_round_trip(const struct hlk_exam *exam, struct hlk_found *found)
{
    const struct hlk_round_trips *pings = &exam->pings;
    found->applies = pings->n > 0;
    if (!found->applies)
        return;
    int64_t lease_us = exam->lease_ms * 1000;
    enum hlk_finding_level level = pings->p99_us > lease_us / 10    ? HLK_FINDING_PROBLEM
                                   : pings->p99_us > lease_us / 100 ? HLK_FINDING_WARNING
                                                                    : HLK_FINDING_OK;
    hlk_found_set(found, level, "p50 %.3f ms, p99 %.3f ms, longest %.3f ms, of %u PINGs", shown_ms(pings->p50_us),
                  shown_ms(pings->p99_us), shown_ms(pings->max_us), pings->n);
    hlk_found_meaning(found,
                      "Acquire and release of a free lock take two round trips, %.3f ms. A renewal has %.3g s "
                      "to be answered.",
                      2 * shown_ms(pings->p50_us), shown_ms(exam->lease_ms * 2 / 3));
    if (level != HLK_FINDING_OK)
        hlk_found_advice(found, "Use a nearer server, or a longer lease; see also slow-commands.");
}
