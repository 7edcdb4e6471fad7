/* Pins that are held for many calls: of their thread alone, nested in each other and in scans, let go of while a thread ends;
 * and that what is pinned keeps memory from being used again, and a repin lets it go. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "check.h"

enum { KEYS = 1000, ROUNDS = 60, EVERY = 256 };

static fanread_guard *guard;

static fanread_map *whole;
static const fanread_map *held;

static void *other_thread(void *result) {
  uint64_t value = 0;
  MISUSED(fanread_repin(guard), FANREAD_HANDLE);
  EXPECT(strstr(fanread_last_error(), "another thread") != NULL);
  MISUSED(fanread_unpin(guard), FANREAD_HANDLE);
  const fanread_map *none;
  MISUSED(fanread_guard_map(guard, whole, &none), FANREAD_HANDLE);
  EXPECT(none == NULL);
  /* Its map is a map all the same. */
  DONE(fanread_map_u64_get(held, 7, &value));
  EXPECT(value == 21);
  DONE(fanread_map_u64_contains(held, 7));
  DONE(fanread_map_u64_insert(held, 8, 24, NULL));
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
  uint64_t value;
  DONE(fanread_map_new(FANREAD_WORMHOLE, FANREAD_U64_VALUES, NULL, &whole));
  DONE(fanread_map_u64_insert(whole, 7, 21, NULL));
  DONE(VALID(fanread_pin(&guard)));
  DONE(VALID(fanread_guard_map(guard, whole, &held)));
  in_another_thread(other_thread);
  DONE(fanread_map_u64_get(held, 8, &value));
  EXPECT(value == 24);
  /* The other thread has not freed it. */
  DONE(VALID(fanread_repin(guard)));
  DONE(VALID(fanread_unpin(guard)));
  DONE(fanread_map_free(whole));
}

/* All calls take the map of a guard, and mean the map; of a guard's map another may be made. */
static void a_held_map_is_the_map(int kind) {
  fanread_map *map;
  const fanread_map *first, *second;
  fanread_cursor *cursor;
  fanread_memory usage;
  uint64_t value, keys[3] = {1, 2, 9}, values[3];
  size_t len, hits;
  int32_t its_kind;
  DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
  DONE(fanread_pin(&guard));
  DONE(fanread_guard_map(guard, map, &first));
  DONE(fanread_guard_map(guard, first, &second));
  EXPECT(fanread_map_u64_get(first, 1, &value) == FANREAD_NOT_FOUND);
  DONE(fanread_map_u64_insert(map, 1, 10, NULL));
  DONE(fanread_map_u64_insert_batch(second, keys, keys, 3));
  DONE(fanread_repin(guard));
  DONE(fanread_map_u64_get(first, 2, &value));
  EXPECT(value == 2);
  DONE(fanread_map_u64_contains(second, 9));
  EXPECT(fanread_map_u64_contains(first, 3) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_u64_replace(first, 1, 11, &value) == FANREAD_REPLACED && value == 1);
  EXPECT(fanread_map_u64_compare_exchange(first, 1, 11, 12, NULL) == FANREAD_REPLACED);
  DONE(fanread_map_u64_get_or_insert(first, 4, 40, &value));
  DONE(fanread_map_u64_remove(first, 2, &value));
  DONE(fanread_map_u64_find(first, FANREAD_ABOVE, 4, &value, NULL));
  EXPECT(value == 9);
  DONE(fanread_map_u64_get_batch(first, keys, 3, values, NULL, &hits));
  EXPECT(hits == 2 && values[0] == 12 && values[1] == 0 && values[2] == 9);
  DONE(fanread_map_len(second, &len));
  EXPECT(len == 3);
  DONE(fanread_map_kind(first, &its_kind, NULL));
  EXPECT(its_kind == kind);
  DONE(fanread_map_memory_usage(first, &usage));
  /* A cursor keeps the map, not the pin; the map of a guard keeps the map too. */
  DONE(fanread_cursor_new(second, &cursor));
  DONE(fanread_map_free(map));
  DONE(fanread_map_u64_get(first, 4, &value));
  EXPECT(value == 40);
  DONE(fanread_unpin(guard));
  DONE(fanread_cursor_next(cursor));
  DONE(fanread_cursor_value(cursor, &value));
  EXPECT(value == 12);
  DONE(fanread_cursor_free(cursor));
}

static void values_of_a_held_map_may_be_bytes(void) {
  fanread_map *map;
  fanread_buffer room = FANREAD_BUFFER_INIT;
  DONE(fanread_map_new(FANREAD_ORDERED_MAP, FANREAD_BYTES_VALUES, NULL, &map));
  DONE(fanread_map_insert_bytes(map, "kiwi", 4, "green", 5, NULL));
  DONE(fanread_pin(&guard));
  DONE(fanread_guard_map(guard, map, &held));
  DONE(fanread_map_get_bytes(held, "kiwi", 4, &room));
  EXPECT(holds(room.data, room.len, "green"));
  DONE(fanread_map_contains(held, "kiwi", 4));
  DONE(fanread_map_remove_bytes(held, "kiwi", 4, NULL));
  EXPECT(fanread_map_get_bytes(held, "kiwi", 4, &room) == FANREAD_NOT_FOUND);
  DONE(fanread_unpin(guard));
  DONE(fanread_map_free(map));
  DONE(fanread_buffer_free(&room));
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
  fanread_guard *pin;
  const fanread_map *pinned;
  fanread_memory usage;
  uint64_t calls = 0;
  DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
  DONE(fanread_pin(&pin));
  DONE(fanread_guard_map(pin, map, &pinned));
  for (int round = 0; round < ROUNDS; round++) {
    for (uint64_t key = 0; key < KEYS; key++) {
      DONE(fanread_map_u64_insert(pinned, key, key, NULL));
      if (repins && ++calls % EVERY == 0) DONE(fanread_repin(pin));
    }
    for (uint64_t key = 0; key < KEYS; key++) {
      DONE(fanread_map_u64_remove(pinned, key, NULL));
      if (repins && ++calls % EVERY == 0) DONE(fanread_repin(pin));
    }
  }
  DONE(fanread_map_memory_usage(map, &usage));
  /* A map that is freed waits for nobody. */
  DONE(fanread_map_free(map));
  DONE(fanread_unpin(pin));
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
  for (int kind = FANREAD_ORDERED_MAP; kind <= FANREAD_SKIP_LIST; kind++) a_held_map_is_the_map(kind);
  values_of_a_held_map_may_be_bytes();
  a_guard_is_of_its_thread();
  a_repin_lets_memory_go();
  puts("pins: ok");
  return 0;
}
