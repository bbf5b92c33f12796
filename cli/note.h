/* note.h - what a run says of itself beside its locks, for show and list: for how long it has had them, who runs it,
 * what, and why (--note). There is a note for each lock.
 *
 *     12 30000           for how long it had been held when this was written, and the note's ttl, in ms
 *     alice              the user
 *     quarterly figures  --note; empty: none
 *     ./report.sh        the first word of COMMAND. More lines if it has them
 *
 * It is written when the lock was acquired and again each third of the lease, without a wait, and removed before the
 * release. Its age is its ttl less what the server says is left of that, so no two clocks are compared. A program that
 * writes notes of its own (hlk_lock_write_note) may write any other text: all of it is the note then. */
#ifndef HLK_CLI_NOTE_H
#define HLK_CLI_NOTE_H

#include "json.h"
#include "locks.h"
#include "options.h"

#include <hasplock/hasplock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTE_MAX_BYTES 200      /* of --note, and of the first word of COMMAND: the rest is cut */

/* --- run. Main thread; there is one note */

/* Looks up what is said. getpwuid(3) may take long on some hosts: it comes before anything is held, and before signals
 * are blocked. */
void note_prepare(const struct options *options);
void note_begin(const struct locks *locks, int64_t held_at_ms);     /* writes it; `locks`: borrowed until note_end */
/* Writes it again if it is time. Returns when that is next, by hlk_now_ms; INT64_MAX: never. */
int64_t note_write(void);
void note_end(void);

/* --- show, list */

struct note_said {
    int64_t held_ms;            /* for how long the lock is held; -1: not known */
    char user[64];              /* each of these: "" if it is not known */
    char command[HLK_NOTE_MAX + 1], note[HLK_NOTE_MAX + 1];
};

/* `text`: a note, "" if there is none. left_ms: of its ttl. */
void note_read(struct note_said *said, const char *text, int64_t left_ms);
/* Of this holder, which query has named. Nothing is said if it cannot be read. */
void note_find(struct note_said *said, hlk_lock *lock, const char *holder);

/* "for 2 min 5 s by alice: ./report.sh --all", as a terminal may show it; "": neither is known. Returns buf. */
const char *note_held(const struct note_said *said, char *buf, size_t size);
#define NOTE_SHOWN 1600         /* room for that */
/* Adds held_ms, user, command and note, those that are known. */
void note_json(const struct note_said *said, struct json *json);

#endif
