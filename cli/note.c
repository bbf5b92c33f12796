/* note.c - see note.h. */
#include "note.h"

#include "text.h"
#include "url.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRITES 3                    /* in the time of a lease */
#define LONGEST_MS 1000000000000000 /* of a number in a note: a longer one is none of ours */

/* --- writing */

static struct {
    const struct locks *locks; /* NULL: nothing is written, or nothing any more */
    int64_t ttl_ms, held_at_ms;
    int64_t next_ms;
    /* The lines behind the first one; "": nothing is said */
    char words[2 + sizeof((struct note_said *)NULL)->user + 2 * (NOTE_MAX_BYTES + 1)];
} own;

_Static_assert(sizeof own.words + sizeof "1000000000000000 1000000000000000" <= HLK_NOTE_MAX, "a note is not too long");

/* Its end did not fit. No character is cut in two. */
static void mark_cut(char *buf, size_t size)
{
    static const char cut[] = "...";
    size_t len = size - sizeof cut;
    while (len > 0 && ((unsigned char)buf[len] & 0xc0) == 0x80)
        len--;
    memcpy(buf + len, cut, sizeof cut);
}

/* The first word of COMMAND alone: the others may be secrets. */
static void name_command(char *buf, size_t size, char *const words[])
{
    if (strlen(*words) < size) {
        strcpy(buf, *words);
        return;
    }
    memcpy(buf, *words, size - 1);
    mark_cut(buf, size);
}

static void name_user(char *buf, size_t size)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user && strlen(user->pw_name) < size && !strchr(user->pw_name, '\n'))
        snprintf(buf, size, "%s", user->pw_name);
    else
        snprintf(buf, size, "uid %u", (unsigned)geteuid());
}

/* A note is one line of several. */
static void copy_line(char *buf, size_t size, const char *text)
{
    snprintf(buf, size, "%s", text);
    for (; *buf; buf++)
        if (*buf == '\n')
            *buf = ' ';
}

void note_prepare(const struct options *options)
{
    char user[sizeof((struct note_said *)NULL)->user], note[NOTE_MAX_BYTES + 1] = "", command[NOTE_MAX_BYTES + 1];
    own.words[0] = '\0';
    own.ttl_ms = options->lease_ms;
    if (url_has_masters(options->url) || (options->note && !*options->note))
        return;
    name_user(user, sizeof user);
    name_command(command, sizeof command, options->argv);
    if (options->note)
        copy_line(note, sizeof note, options->note);
    snprintf(own.words, sizeof own.words, "%s\n%s\n%s", user, note, command);
}

/* False: no lock takes it any more, or none is held. */
static bool write_all(const char *text)
{
    bool any = false;
    for (size_t i = 0; i < own.locks->count; i++)
        any |= hlk_lock_write_note(own.locks->each[i], text, own.ttl_ms) == HLK_OK;
    return any;
}

int64_t note_write(void)
{
    char text[HLK_NOTE_MAX + 1];
    int64_t now = hlk_now_ms();
    if (!own.locks || now < own.next_ms)
        return own.locks ? own.next_ms : INT64_MAX;
    snprintf(text, sizeof text, "%" PRId64 " %" PRId64 "\n%s", now - own.held_at_ms, own.ttl_ms, own.words);
    own.next_ms = write_all(text) ? now + own.ttl_ms / WRITES : INT64_MAX;
    return own.next_ms;
}

void note_begin(const struct locks *locks, int64_t held_at_ms)
{
    own.locks = own.words[0] ? locks : NULL;
    own.held_at_ms = held_at_ms;
    own.next_ms = 0;
    (void)note_write();
}

void note_end(void)
{
    if (own.locks)
        (void)write_all(NULL);
    own.locks = NULL;
}

/* --- reading */

static bool read_number(const char **text, char end, int64_t *number)
{
    char *behind;
    if (**text < '0' || **text > '9')
        return false;
    long long value = strtoll(*text, &behind, 10);
    if (*behind != end || value > LONGEST_MS)
        return false;
    *text = behind + 1;
    *number = value;
    return true;
}

static void take_line(const char **text, char *buf, size_t size)
{
    size_t len = strcspn(*text, "\n"), kept = len < size ? len : size - 1;
    memcpy(buf, *text, kept);
    buf[kept] = '\0';
    *text += len + ((*text)[len] == '\n');
}

void note_read(struct note_said *said, const char *text, int64_t left_ms)
{
    const char *at = text;
    int64_t held_ms, ttl_ms;
    *said = (struct note_said){ .held_ms = -1 };
    if (!read_number(&at, ' ', &held_ms) || !read_number(&at, '\n', &ttl_ms)) {
        snprintf(said->note, sizeof said->note, "%s", text);
        return;
    }
    said->held_ms = held_ms + (left_ms >= 0 && left_ms < ttl_ms ? ttl_ms - left_ms : 0);
    take_line(&at, said->user, sizeof said->user);
    take_line(&at, said->note, sizeof said->note);
    snprintf(said->command, sizeof said->command, "%s", at);
}

void note_find(struct note_said *said, hlk_lock *lock, const char *holder)
{
    char text[HLK_NOTE_MAX + 1] = "";
    int64_t left_ms = 0;
    if (strncmp(holder, "hlk-", 4) == 0 && hlk_lock_read_note(lock, holder, text, sizeof text, &left_ms) != HLK_OK)
        text[0] = '\0';
    note_read(said, text, left_ms);
}

/* "12.3 s", "2 min 5 s", "3 h 2 min", "2 d 3 h" */
static const char *age_text(char *buf, size_t size, int64_t ms)
{
    int64_t s = ms / 1000;
    if (s < 60)
        snprintf(buf, size, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
    else if (s < 3600)
        snprintf(buf, size, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (s < 24 * 3600)
        snprintf(buf, size, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    else
        snprintf(buf, size, "%" PRId64 " d %" PRId64 " h", s / (24 * 3600), s % (24 * 3600) / 3600);
    return buf;
}

const char *note_held(const struct note_said *said, char *buf, size_t size)
{
    char age[64], user[300], command[1000];
    buf[0] = '\0';
    if (said->held_ms >= 0)
        snprintf(buf, size, "for %s by %s: %s", age_text(age, sizeof age, said->held_ms),
                 text_shown(user, sizeof user, said->user), text_shown(command, sizeof command, said->command));
    return buf;
}

void note_json(const struct note_said *said, struct json *json)
{
    if (said->held_ms >= 0)
        json_int(json, "held_ms", said->held_ms);
    if (*said->user)
        json_string(json, "user", said->user);
    if (*said->command)
        json_string(json, "command", said->command);
    if (*said->note)
        json_string(json, "note", said->note);
}
