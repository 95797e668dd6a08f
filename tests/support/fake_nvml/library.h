/* What the files of the fake share: its state, and the one way to a number. */
#pragma once

#include "scenario.h"

#pragma GCC visibility push(hidden)

typedef unsigned Return;

extern Scenario *scenario; /* NULL while NVML is not initialized */

/* What stands before an answer: NVML's state, the handle, where it goes to, a failure. */
Return check(const Device *device, const void *out, const char *name, double now);

/* A number of the scenario by name; `value` is NULL where the caller gave no place for it. */
__attribute__((format(printf, 3, 4))) Return ask(Device *device, double *value, const char *format,
                                                 ...);

#pragma GCC visibility pop
