/* batch_fixture.h - pipeline_fixture.h with an owner that can make batches: "<a+b+c>" of calls whose bytes are "[a]",
 * "[b]" and "[c]", and "<!a+b+c>" when the batch has to be whole. */
#ifndef HLK_TEST_UNIT_BATCH_FIXTURE_H
#define HLK_TEST_UNIT_BATCH_FIXTURE_H

#include "pipeline_fixture.h"

#include <stdio.h>

#define NONE (-77LL) /* no reply */

extern int combines; /* how many batches were made */
extern int fails_at; /* the batch that fails, from 1; 0: none */

bool combine(struct hlk_buffer *to, const char *bytes, struct hlk_call *const *calls, unsigned n, bool whole);
void combining_begin(void);

/* A lower-case letter is batchable and sent as "[a]". Any other character is unbatched and sent as it is. */
const char *as_part(struct hlk_call *call, char inbox_message);
enum hlk_status ask_letter(struct asked *a, char inbox_message);
void queue_letters(struct asked *a, const char *letters);

/* Sends all in one write. Returns the bytes that the server reads. */
const char *ask_at_once(struct asked *a, const char *letters);
const char *ask_many(struct asked *a, unsigned n);

extern char text[32768];

/* n calls in one batch, and unbatched. */
char *together(unsigned n);
char *apart(unsigned n);

/* The same reply n times: without an array, and in one. */
const char *singly(unsigned n, const char *answer);
const char *array_of(unsigned n, const char *answer);
bool all_end(const struct asked *a, unsigned n, enum hlk_call_end end, long long answer);

#endif
