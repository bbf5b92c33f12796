/* exam_fixture.h - an examination as a test writes it: of a good server, then with other answers. */
#ifndef HLK_TEST_EXAM_FIXTURE_H
#define HLK_TEST_EXAM_FIXTURE_H

#include "diagnose/exam.h"

extern struct hlk_exam exam;
extern struct hlk_found found;

void exam_start(void);          /* of a good server, which answers everything */
void exam_stop(void);

void exam_url(const char *text);
/* The answer, in Redis' protocol, with "\n" for "\r\n". NULL: it was not asked. */
void exam_answer(enum hlk_ask ask, const char *resp);
void exam_string(enum hlk_ask ask, const char *text);
void exam_config(enum hlk_ask ask, const char *value);
void exam_info(const char *lines);     /* of INFO: what is asked for is found in the first place where it stands */
void exam_refuse(enum hlk_ask ask);    /* NOPERM, to the command */

/* Judges. Then level, and that each of the texts has the words (NULL: it is empty). */
void exam_judge(hlk_check_fn *check, enum hlk_finding_level level, const char *measured, const char *meaning,
                const char *advice);

#endif
