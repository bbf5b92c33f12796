/* wrap.h - paragraphs for a terminal of 80 columns. */
#ifndef HLK_CLI_WRAP_H
#define HLK_CLI_WRAP_H

#include <stddef.h>

/* Writes `text` in lines of up to 80 columns that begin with `indent` blanks. A word that is longer has a line of its
 * own. Of a paragraph that begins with "ACL SETUSER USER" each line is such a command, for ACL SETUSER adds to what a
 * user may do. Returns the length; nothing more is written when `size` is reached. */
size_t wrap(char *out, size_t size, const char *text, int indent);

#endif
