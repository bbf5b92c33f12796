/* help.h - the texts of --help. Each is a whole screen, so that one can be read without the others. */
#ifndef HLK_CLI_HELP_H
#define HLK_CLI_HELP_H

extern const char help_main[], help_run[], help_show[], help_break[];

#endif
