/* doctor.h - `hasplock doctor`: what the server that keeps the locks is like, and what that means for them. */
#ifndef HLK_CLI_DOCTOR_H
#define HLK_CLI_DOCTOR_H

#include "options.h"

int doctor(const struct options *options);      /* 0 nothing worse than a note, 1 warnings, 2 problems, or a fault's */

#endif
