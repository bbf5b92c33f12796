/* acquire_report.h - the outcome of an acquire operation. */
#ifndef HLK_ACQUIRE_ACQUIRE_REPORT_H
#define HLK_ACQUIRE_ACQUIRE_REPORT_H

#include "acquire/acquire_op.h"

/* Counts it and, unless HLK_OK, sets the thread's error. Returns `status`. */
enum hlk_status hlk_acquire_op_report(struct hlk_acquire_op *op, enum hlk_status status);

#endif
