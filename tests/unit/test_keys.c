/* Keys, channels and fields as Redisson names them; holders in messages. */
#include "script/keys.h"

#include <criterion/criterion.h>
#include <string.h>

static char out[HLK_KEY_MAX];

static const char *channel(const char *name)
{
    out[hlk_key_channel(out, name, strlen(name))] = '\0';
    return out;
}

static const char *queue_key(const char *name)
{
    out[hlk_key_queue(out, name, strlen(name))] = '\0';
    return out;
}

static const char *token_key(const char *name)
{
    out[hlk_key_token(out, name, strlen(name))] = '\0';
    return out;
}

Test(keys, a_plain_name_is_put_in_braces)
{
    cr_assert_str_eq(token_key("invoice:42"), "redisson_lock_token:{invoice:42}");
    cr_assert_str_eq(channel("invoice:42"), "redisson_lock__channel:{invoice:42}");
    cr_assert_str_eq(queue_key("invoice:42"), "hasplock_queue:{invoice:42}");
}

Test(keys, a_fair_lock_has_queue_scores_and_waiters_channels)
{
    static char waiter[HLK_KEY_MAX + HLK_FIELD_MAX];
    out[hlk_key_fair_queue(out, "a", 1)] = '\0';
    cr_assert_str_eq(out, "redisson_lock_queue:{a}");
    out[hlk_key_fair_scores(out, "{a}b", 4)] = '\0';
    cr_assert_str_eq(out, "redisson_lock_timeout:{a}b");
    waiter[hlk_key_waiter(waiter, "a", 1, "hlk-h-1-x", 7)] = '\0';
    cr_assert_str_eq(waiter, "redisson_lock__channel:{a}:hlk-h-1-x:7");
}

/* Redisson adds braces to each name. */
Test(keys, a_latch_has_a_braced_channel_and_one_in_its_slot)
{
    static const char *const names[][3] = {
        { "a", "redisson_countdownlatch__channel__{a}", "redisson_countdownlatch__channel__{a}" },
        { "{a}b", "redisson_countdownlatch__channel__{{a}b}", "redisson_countdownlatch__channel__{a}b" },
    };
    for (size_t i = 0; i < 2; i++) {
        out[hlk_key_latch(out, names[i][0], strlen(names[i][0]))] = '\0';
        cr_assert_str_eq(out, names[i][1]);
        out[hlk_key_latch_in_slot(out, names[i][0], strlen(names[i][0]))] = '\0';
        cr_assert_str_eq(out, names[i][2]);
    }
}

Test(keys, a_name_with_braces_keeps_its_own)
{
    cr_assert_str_eq(channel("{user:1}:cart"), "redisson_lock__channel:{user:1}:cart");
    cr_assert_str_eq(queue_key("a{b}c"), "hasplock_queue::a{b}c");
    cr_assert_str_eq(token_key("a{b}c"), "redisson_lock_token:a{b}c");
}

Test(keys, that_redisson_does_not_know_tell_braces_apart)
{
    out[hlk_key_own(out, "hasplock_x", "a", 1)] = '\0';
    cr_assert_str_eq(out, "hasplock_x:{a}");
    out[hlk_key_own(out, "hasplock_x", "{a}", 3)] = '\0';
    cr_assert_str_eq(out, "hasplock_x::{a}");
    out[hlk_key_barrier(out, "a{b}", 4)] = '\0';
    cr_assert_str_eq(out, "hasplock_barrier::a{b}");
    out[hlk_key_rw_queue(out, "a", 1)] = '\0';
    cr_assert_str_eq(out, "hasplock_rwlock:{a}");
}

/* "a" and "{a}" are two locks. Checks each pair of all names of up to 5 bytes of { } a :. */
/* Shows: P5 */
Test(keys, no_two_names_have_one_queue)
{
    enum { MOST = 4 + 16 + 64 + 256 + 1024 };
    static char names[MOST][6], keys[MOST][64];
    int total = 0;
    for (int n = 1, all = 4; n <= 5; n++, all *= 4) {
        for (int k = 0; k < all; k++, total++) {
            for (int i = 0, rest = k; i < n; i++, rest /= 4)
                names[total][i] = "{}a:"[rest % 4];
            (void)strcpy(keys[total], queue_key(names[total]));
        }
    }
    cr_assert_eq(total, MOST);
    for (int i = 0; i < MOST; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(keys[i], keys[j]) == 0)
                cr_assert_fail("%s of %s and %s", keys[i], names[i], names[j]);
        }
    }
}

Test(keys, an_inbox_is_the_clients)
{
    size_t n = hlk_key_inbox(out, "hlk-web-3-4711-9f3a");
    cr_assert_str_eq(out, "hasplock_inbox:hlk-web-3-4711-9f3a");
    cr_assert_eq(n, strlen(out));
}

/* Redisson checks for a '{' anywhere, not for a hash tag. With another rule its clients would not get our messages. */
Test(keys, any_open_brace_counts)
{
    cr_assert_str_eq(channel("{"), "redisson_lock__channel:{");
    cr_assert_str_eq(channel("a{"), "redisson_lock__channel:a{");
    cr_assert_str_eq(channel("{}x"), "redisson_lock__channel:{}x");
    cr_assert_str_eq(channel("}{"), "redisson_lock__channel:}{");
    cr_assert_str_eq(channel("}"), "redisson_lock__channel:{}}");
}

Test(keys, names_are_bytes)
{
    size_t n = hlk_key_channel(out, "a\0b", 3);
    cr_assert_eq(n, strlen("redisson_lock__channel:") + 5);
    cr_assert_arr_eq(out + strlen("redisson_lock__channel:"), "{a\0b}", 5);
    n = hlk_key_channel(out, "a\0{", 3);
    cr_assert_arr_eq(out + strlen("redisson_lock__channel:"), "a\0{", 3);
    cr_assert_eq(n, strlen("redisson_lock__channel:") + 3);
}

Test(keys, the_longest_name_fits)
{
    char name[HLK_NAME_MAX];
    memset(name, 'n', sizeof name);
    cr_assert_leq(hlk_key_channel(out, name, sizeof name), sizeof out);
    cr_assert_leq(hlk_key_queue(out, name, sizeof name), sizeof out);
    cr_assert_leq(hlk_key_token(out, name, sizeof name), sizeof out);
    cr_assert_leq(hlk_key_fair_queue(out, name, sizeof name), sizeof out);
    cr_assert_leq(hlk_key_fair_scores(out, name, sizeof name), sizeof out);
    cr_assert_leq(hlk_key_fair(out, name, sizeof name), sizeof out);
}

/* --- slots --- */

static bool breaks(const char *name)
{
    return hlk_name_breaks_slots(name, strlen(name));
}

/* The part that a cluster hashes, by Redis' rule. */
static void tag(const char *key, size_t len, const char **at, size_t *n)
{
    const char *open = memchr(key, '{', len);
    const char *close = open ? memchr(open + 1, '}', len - (size_t)(open + 1 - key)) : NULL;
    bool tagged = close && close != open + 1;
    *at = tagged ? open + 1 : key;
    *n = tagged ? (size_t)(close - open - 1) : len;
}

typedef size_t key_maker(char out[HLK_KEY_MAX], const char *name, size_t len);

static bool differ(const char *name, key_maker *key)
{
    const char *a, *b;
    size_t na, nb;
    tag(name, strlen(name), &a, &na);
    tag(out, key(out, name, strlen(name)), &b, &nb);
    return na != nb || memcmp(a, b, na) != 0;
}

Test(keys, names_that_break_slots_are_seen)
{
    cr_assert(breaks("{"));
    cr_assert(breaks("a{b"));
    cr_assert(breaks("{}"));
    cr_assert(breaks("a{}b{c}"));
    cr_assert(breaks("}{"));
}

Test(keys, names_that_keep_slots_are_left_alone)
{
    cr_assert_not(breaks("plain"));
    cr_assert_not(breaks("{tag}rest"));
    cr_assert_not(breaks("a{b}c"));
    cr_assert_not(breaks("{a}{}"));
    cr_assert_not(breaks("{{x}"));
}

/* All names of up to 5 bytes of { } a, compared with a cluster's rule. */
Test(keys, breaking_is_what_a_cluster_would_say)
{
    static key_maker *const keys[] = { hlk_key_channel,    hlk_key_queue,       hlk_key_token,
                                       hlk_key_fair_queue, hlk_key_fair_scores, hlk_key_fair };
    for (int n = 1; n <= 5; n++) {
        int all = 1;
        for (int i = 0; i < n; i++)
            all *= 3;
        for (int k = 0; k < all; k++) {
            char name[6] = "";
            for (int i = 0, rest = k; i < n; i++, rest /= 3)
                name[i] = "{}a"[rest % 3];
            for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
                cr_assert_eq(breaks(name), differ(name, keys[j]), "%s, key %zu", name, j);
        }
    }
}

/* --- fields --- */

Test(keys, a_field_is_client_and_hold)
{
    char field[HLK_FIELD_MAX];
    size_t n = hlk_field(field, "hlk-web-3-4711-9f3a", 12);
    cr_assert_str_eq(field, "hlk-web-3-4711-9f3a:12");
    cr_assert_eq(n, strlen(field));
}

Test(keys, a_field_ends_after_a_shorter_number)
{
    char field[HLK_FIELD_MAX];
    (void)hlk_field(field, "c", 9999999);
    (void)hlk_field(field, "c", 1);
    cr_assert_str_eq(field, "c:1");
    (void)hlk_field(field, "c", INT64_MAX);
    cr_assert_str_eq(field, "c:9223372036854775807");
}

Test(keys, a_ticket_in_queue_is_the_field_and_four_numbers)
{
    char member[HLK_MEMBER_MAX];
    struct hlk_member place = { .ttl_ms = 5000, .tokens = 65, .floor = 17, .since_ms = 1760000000000 };
    size_t n = hlk_member(member, "hlk-web-3-4711-9f3a", 12, &place);
    cr_assert_str_eq(member, "hlk-web-3-4711-9f3a:12 5000 65 17 1760000000000");
    cr_assert_eq(n, strlen(member));
    (void)hlk_member(member, "c", 1, &(struct hlk_member){ .ttl_ms = 1, .since_ms = 2 });
    cr_assert_str_eq(member, "c:1 1 0 0 2");
}

Test(keys, the_longest_ticket_fits)
{
    char member[HLK_MEMBER_MAX], client[HLK_FIELD_MAX - 21];
    struct hlk_member place = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    memset(client, 'c', sizeof client);
    client[sizeof client - 1] = '\0';
    cr_assert_lt(hlk_member(member, client, INT64_MAX, &place), sizeof member);
}

static bool is_of(const char *field, const char *client)
{
    return hlk_field_is_of(field, strlen(field), client);
}

Test(keys, knows_its_own_holds)
{
    cr_assert(is_of("hlk-a-1-ff:12", "hlk-a-1-ff"));
    cr_assert_not(is_of("hlk-a-1-ff0:12", "hlk-a-1-ff"));
    cr_assert_not(is_of("hlk-a-1-f:12", "hlk-a-1-ff"));
    cr_assert_not(is_of("hlk-a-1-ff", "hlk-a-1-ff"));
    cr_assert_not(is_of("xlk-a-1-ff:12", "hlk-a-1-ff"));
    cr_assert_not(is_of("", "hlk-a-1-ff"));
}

Test(keys, knows_clients_of_this_library)
{
    cr_assert(hlk_field_is_ours("hlk-a-1-ff:12"));
    cr_assert_not(hlk_field_is_ours("6f9c2a10-41f3-4b0e-9a52-000000000000:61"));
    cr_assert_not(hlk_field_is_ours("hlk"));
    cr_assert_not(hlk_field_is_ours(""));
}

Test(keys, looks_at_no_byte_beyond_the_field)
{
    cr_assert_not(hlk_field_is_of("hlk-a:1", 5, "hlk-a"));
    cr_assert(hlk_field_is_of("hlk-a:1", 6, "hlk-a"));
}

/* --- for people --- */

static const char *describe(const char *field)
{
    static char buf[512];
    struct hlk_text text;
    hlk_text_init(&text, buf, sizeof buf);
    hlk_field_describe(&text, field, strlen(field));
    return buf;
}

Test(keys, our_holders_are_host_pid_and_hold)
{
    cr_assert_str_eq(describe("hlk-web3-4711-9f3a:12"), "web3 pid 4711 (hold 12)");
}

Test(keys, hosts_may_have_dashes)
{
    cr_assert_str_eq(describe("hlk-web-3-eu-west-1-4711-9f3a:12"), "web-3-eu-west-1 pid 4711 (hold 12)");
    cr_assert_str_eq(describe("hlk-1-2-3-4:5"), "1-2 pid 3 (hold 5)");
    cr_assert_str_eq(describe("hlk-a.b.example-77-x:1"), "a.b.example pid 77 (hold 1)");
}

Test(keys, others_are_quoted_as_they_are)
{
    cr_assert_str_eq(describe("6f9c2a10-41f3-4b0e-9a52-000000000000:61"),
                     "\"6f9c2a10-41f3-4b0e-9a52-000000000000:61\"");
    cr_assert_str_eq(describe("hlk"), "\"hlk\"");
    cr_assert_str_eq(describe("hlk-"), "\"hlk-\"");
    cr_assert_str_eq(describe("hlk-x:1"), "\"hlk-x:1\"");
    cr_assert_str_eq(describe("hlk-12-9f:1"), "\"hlk-12-9f:1\"");
    cr_assert_str_eq(describe("hlk-host-pid-9f:1"), "\"hlk-host-pid-9f:1\"");
    cr_assert_str_eq(describe("hlk-host--9f:1"), "\"hlk-host--9f:1\"");
    cr_assert_str_eq(describe("hlk-host-12-9f"), "\"hlk-host-12-9f\"");
    cr_assert_str_eq(describe(""), "\"\"");
}

Test(keys, a_strange_field_cannot_write_on_the_terminal)
{
    cr_assert_str_eq(describe("\x1b[2J:1"), "\"\\x1b[2J:1\"");
}

Test(keys, a_field_that_is_too_long_is_cut)
{
    char field[400];
    memset(field, '7', sizeof field);
    memcpy(field, "hlk-h-", 6);
    field[sizeof field - 1] = '\0';
    const char *text = describe(field);
    cr_assert_eq(text[0], '"');
    cr_assert_str_eq(text + strlen(text) - 4, "\"...");
}
