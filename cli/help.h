/* help.h - the texts of --help, within 80 columns. Each is a whole, so that one can be read without the others. */
#ifndef HLK_CLI_HELP_H
#define HLK_CLI_HELP_H

extern const char help_main[], help_run[], help_semaphore[], help_latch[], help_barrier[], help_show[], help_list[],
    help_break[], help_doctor[];

#endif
