/* Pins that are held for many calls: of their thread alone, nested in each other and in scans, let go of while a thread ends;
 * and that what is pinned keeps memory from being used again, and a repin lets it go. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

enum { KEYS = 1000, ROUNDS = 60, EVERY = 256 };

static fanread_guard *guard;

static void *other_thread(void *result) {
  MISUSED(fanread_repin(guard), FANREAD_HANDLE);
  EXPECT(strstr(fanread_last_error(), "another thread") != NULL);
  MISUSED(fanread_unpin(guard), FANREAD_HANDLE);
  fanread_guard *own;
  DONE(fanread_pin(&own));
  DONE(fanread_repin(own));
  DONE(fanread_unpin(own));
  return result;
}

static void in_another_thread(void *(*body)(void *)) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, body, NULL) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
}

static void a_guard_is_of_its_thread(void) {
  DONE(VALID(fanread_pin(&guard)));
  in_another_thread(other_thread);
  /* The other thread has not freed it. */
  DONE(VALID(fanread_repin(guard)));
  DONE(VALID(fanread_unpin(guard)));
}

static void guards_may_go_in_any_order(const fanread_map *map) {
  fanread_guard *guards[3];
  uint64_t value;
  for (int i = 0; i < 3; i++) DONE(fanread_pin(&guards[i]));
  for (int i = 0; i < 3; i++) {
    DONE(fanread_map_u64_get(map, 1, &value));
    DONE(fanread_repin(guards[i]));
    DONE(fanread_unpin(guards[i]));
  }
  DONE(fanread_map_u64_get(map, 1, &value));
}

struct walk {
  const fanread_map *map;
  uint64_t next;
};

/* Removes what a scan shows, and pins in between. */
static int32_t visit(void *context, uint64_t key, uint64_t value) {
  struct walk *walk = context;
  fanread_guard *nested;
  EXPECT(key == walk->next++ && value == key * 3);
  DONE(fanread_repin(guard));
  DONE(fanread_pin(&nested));
  DONE(fanread_map_u64_remove(walk->map, key, &value));
  DONE(fanread_repin(nested));
  DONE(fanread_unpin(nested));
  if (key == KEYS / 2) {
    DONE(fanread_unpin(guard));
    DONE(fanread_pin(&guard));
  }
  return 0;
}

static void scans_and_pins_are_in_each_other(const fanread_map *map) {
  struct walk walk = {map, 0};
  size_t len;
  DONE(fanread_pin(&guard));
  DONE(fanread_map_u64_scan(map, FANREAD_FIRST, 0, visit, &walk));
  DONE(fanread_unpin(guard));
  EXPECT(walk.next == KEYS);
  DONE(fanread_map_len(map, &len));
  EXPECT(len == 0);
}

static pthread_key_t at_end;
static int ended;

static void let_go(void *held) {
  DONE(fanread_repin(held));
  DONE(fanread_unpin(held));
  ended++;
}

static void *ending_thread(void *map) {
  fanread_guard *held;
  uint64_t value;
  DONE(fanread_pin(&held));
  EXPECT(pthread_setspecific(at_end, held) == 0);
  DONE(fanread_map_u64_get(map, 1, &value));
  return NULL;
}

/* Where a thread ends, the library's own things of it are gone already. */
static void a_thread_may_let_go_while_it_ends(fanread_map *map) {
  pthread_t thread;
  EXPECT(pthread_key_create(&at_end, let_go) == 0);
  EXPECT(pthread_create(&thread, NULL, ending_thread, map) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(ended == 1);
  EXPECT(pthread_key_delete(at_end) == 0);
}

static uint64_t bytes_after_rounds(int kind, int repins) {
  fanread_map *map;
  fanread_guard *held;
  fanread_memory usage;
  uint64_t calls = 0;
  DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
  DONE(fanread_pin(&held));
  for (int round = 0; round < ROUNDS; round++) {
    for (uint64_t key = 0; key < KEYS; key++) {
      DONE(fanread_map_u64_insert(map, key, key, NULL));
      if (repins && ++calls % EVERY == 0) DONE(fanread_repin(held));
    }
    for (uint64_t key = 0; key < KEYS; key++) {
      DONE(fanread_map_u64_remove(map, key, NULL));
      if (repins && ++calls % EVERY == 0) DONE(fanread_repin(held));
    }
  }
  DONE(fanread_map_memory_usage(map, &usage));
  /* A map that is freed waits for nobody. */
  DONE(fanread_map_free(map));
  DONE(fanread_unpin(held));
  return usage.total_bytes;
}

/* All that a map has given up since the pin is there, or next to nothing. The two kinds that are left out give up little. */
static void a_repin_lets_memory_go(void) {
  const int kinds[] = {FANREAD_ORDERED_MAP, FANREAD_U64_MAP, FANREAD_WORMHOLE, FANREAD_SKIP_LIST};
  for (size_t i = 0; i < COUNT(kinds); i++)
    EXPECT(bytes_after_rounds(kinds[i], 1) < bytes_after_rounds(kinds[i], 0) / 2);
}

int main(void) {
  for (int kind = FANREAD_ORDERED_MAP; kind <= FANREAD_SKIP_LIST; kind++) {
    fanread_map *map;
    DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
    for (uint64_t key = 0; key < KEYS; key++) DONE(fanread_map_u64_insert(map, key, key * 3, NULL));
    guards_may_go_in_any_order(map);
    if (kind == FANREAD_ORDERED_MAP) a_thread_may_let_go_while_it_ends(map);
    scans_and_pins_are_in_each_other(map);
    DONE(fanread_map_free(map));
  }
  a_guard_is_of_its_thread();
  a_repin_lets_memory_go();
  puts("pins: ok");
  return 0;
}
