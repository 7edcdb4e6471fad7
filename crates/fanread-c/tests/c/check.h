/* What the tests of C say. A test of the crate looks for VALID, NULLED, NOTHING and MISUSED: each function of the header must be
 * in the first, and each with a pointer in one of the next two and in the last. */
#ifndef FANREAD_CHECK_H
#define FANREAD_CHECK_H

#include <fanread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(truth)                                                                    \
  do {                                                                                   \
    if (!(truth)) {                                                                      \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #truth, fanread_last_error()); \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

/* A call with arguments that are as they should be. */
#define VALID(call) (call)
#define DONE(call) EXPECT((call) == FANREAD_OK)

/* A call with a NULL that is not allowed. */
#define NULLED(call)                         \
  do {                                       \
    EXPECT((call) == FANREAD_NULL);          \
    EXPECT(fanread_last_error()[0] != '\0'); \
  } while (0)

/* A call that frees NULL. */
#define NOTHING(call) EXPECT((call) == FANREAD_OK)

/* A call with arguments that are not what they are for. */
#define MISUSED(call, why)                   \
  do {                                       \
    EXPECT((call) == (why));                 \
    EXPECT(fanread_last_error()[0] != '\0'); \
  } while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline fanread_bytes bytes_of(const void *data, size_t len) {
  fanread_bytes bytes;
  bytes.data = (const uint8_t *)data;
  bytes.len = len;
  return bytes;
}

static inline fanread_bytes text_of(const char *text) { return bytes_of(text, strlen(text)); }

static inline int holds(const uint8_t *data, size_t len, const char *text) {
  return data != NULL && len == strlen(text) && memcmp(data, text, len) == 0;
}

/* The bytes of a number, the highest first. */
static inline const uint8_t *spell(uint64_t number, uint8_t room[8]) {
  for (int i = 7; i >= 0; i--, number >>= 8) room[i] = (uint8_t)number;
  return room;
}

static inline int takes_strings(int kind) {
  return kind != FANREAD_U64_MAP && kind != FANREAD_MLP_INDEX;
}

#endif
