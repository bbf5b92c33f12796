/* options_reader.h - what options.c and options_check.c share: the options that are being put together, and the first
 * complaint about them. */
#ifndef HLK_CLI_OPTIONS_READER_H
#define HLK_CLI_OPTIONS_READER_H

#include "options.h"

#define YEAR_MS (365LL * 24 * 3600 * 1000)
#define LEASE_LEAST_MS 1000 /* below it a busy host is soon late with a renewal */

struct reader {
    struct options *options;
    int argc;
    char **argv;
    char *shell; /* -c */
    bool lease_given, grace_given;
    int stands_at; /* the word that getopt is at: for messages */
    enum parsed result;
    char complaint[1024]; /* the first one; said at the end, when it is known whether by --json */
    const char *complaint_about;
};

/* The first one counts: nothing is done then. */
void options_complain(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* NAME is a prefix of names, and may be left out. */
bool options_take_prefix(const struct options *options);
/* `word` stands where nothing may. */
void options_refuse_word(struct reader *r, const char *word);

#endif
