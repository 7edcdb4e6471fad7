/* Cursors: every order of steps, over all kinds of maps. */
#include "check.h"

enum { MANY = 1000 };

static uint64_t value_of(fanread_cursor *cursor) {
  uint64_t value;
  DONE(VALID(fanread_cursor_value(cursor, &value)));
  return value;
}

static uint64_t key_of(fanread_cursor *cursor) {
  uint64_t key;
  DONE(VALID(fanread_cursor_u64_key(cursor, &key)));
  return key;
}

static void walks_go_both_ways(int kind, size_t ahead) {
  static uint64_t keys[MANY], values[MANY];
  for (uint64_t i = 0; i < MANY; i++) keys[i] = i * 10, values[i] = i;
  fanread_map *map;
  DONE(fanread_map_u64_from_sorted(kind, keys, values, MANY, &map));
  fanread_cursor *cursor;
  DONE(VALID(fanread_cursor_new(map, &cursor)));
  DONE(VALID(fanread_cursor_read_ahead(cursor, ahead)));

  EXPECT(VALID(fanread_cursor_prev(cursor)) == FANREAD_NOT_FOUND);
  for (uint64_t i = 0; i < MANY; i++) {
    DONE(VALID(fanread_cursor_next(cursor)));
    EXPECT(key_of(cursor) == i * 10 && value_of(cursor) == i);
  }
  EXPECT(fanread_cursor_next(cursor) == FANREAD_NOT_FOUND);
  EXPECT(fanread_cursor_next(cursor) == FANREAD_NOT_FOUND);
  for (uint64_t i = MANY; i-- > 0;) {
    DONE(fanread_cursor_prev(cursor));
    EXPECT(key_of(cursor) == i * 10 && value_of(cursor) == i);
  }
  EXPECT(fanread_cursor_prev(cursor) == FANREAD_NOT_FOUND);
  DONE(fanread_cursor_next(cursor));
  EXPECT(value_of(cursor) == 0);

  /* Two forwards, one back. */
  for (uint64_t i = 0; i + 2 < MANY; i++) {
    DONE(fanread_cursor_next(cursor));
    DONE(fanread_cursor_next(cursor));
    EXPECT(value_of(cursor) == i + 2);
    DONE(fanread_cursor_prev(cursor));
    EXPECT(value_of(cursor) == i + 1);
  }

  DONE(VALID(fanread_cursor_seek_last(cursor)));
  EXPECT(value_of(cursor) == MANY - 1);
  EXPECT(fanread_cursor_next(cursor) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_cursor_seek_first(cursor)));
  EXPECT(value_of(cursor) == 0);
  uint8_t room[8];
  DONE(VALID(fanread_cursor_seek(cursor, FANREAD_AT_OR_ABOVE, spell(55, room), 8)));
  EXPECT(value_of(cursor) == 6);
  fanread_bytes key;
  DONE(VALID(fanread_cursor_key(cursor, &key)));
  EXPECT(key.len == 8 && memcmp(key.data, spell(60, room), 8) == 0);
  DONE(fanread_cursor_prev(cursor));
  EXPECT(value_of(cursor) == 5);
  DONE(VALID(fanread_cursor_u64_seek(cursor, FANREAD_BELOW, 60)));
  EXPECT(value_of(cursor) == 5);
  DONE(fanread_cursor_next(cursor));
  EXPECT(value_of(cursor) == 6);
  DONE(fanread_cursor_u64_seek(cursor, FANREAD_ABOVE, 60));
  EXPECT(value_of(cursor) == 7);
  DONE(fanread_cursor_u64_seek(cursor, FANREAD_AT_OR_BELOW, UINT64_MAX));
  EXPECT(value_of(cursor) == MANY - 1);
  EXPECT(fanread_cursor_u64_seek(cursor, FANREAD_ABOVE, UINT64_MAX) == FANREAD_NOT_FOUND);
  DONE(fanread_cursor_prev(cursor));
  EXPECT(value_of(cursor) == MANY - 1);
  EXPECT(fanread_cursor_u64_seek(cursor, FANREAD_BELOW, 0) == FANREAD_NOT_FOUND);
  MISUSED(fanread_cursor_key(cursor, &key), FANREAD_NO_ENTRY);
  DONE(fanread_cursor_next(cursor));
  EXPECT(value_of(cursor) == 0);

  /* The entries stay as long as the cursor. */
  DONE(fanread_map_free(map));
  DONE(fanread_cursor_u64_seek(cursor, FANREAD_AT_OR_ABOVE, 5000));
  EXPECT(value_of(cursor) == 500);
  DONE(VALID(fanread_cursor_free(cursor)));
}

static void byte_values_are_lent(int kind) {
  static uint64_t keys[MANY];
  static char texts[MANY][120];
  static fanread_bytes values[MANY];
  for (size_t i = 0; i < MANY; i++) {
    keys[i] = i;
    memset(texts[i], 'a' + (int)(i % 26), sizeof texts[i]);
    values[i] = bytes_of(texts[i], i % (sizeof texts[i] + 1));
  }
  fanread_map *map;
  DONE(fanread_map_u64_from_sorted_bytes(kind, keys, values, MANY, &map));
  fanread_cursor *cursor;
  DONE(fanread_cursor_new(map, &cursor));
  for (size_t i = 0; i < MANY; i++) {
    fanread_bytes value;
    DONE(fanread_cursor_next(cursor));
    DONE(VALID(fanread_cursor_value_bytes(cursor, &value)));
    EXPECT(key_of(cursor) == i && value.len == values[i].len);
    EXPECT(memcmp(value.data, values[i].data, value.len) == 0);
  }
  DONE(fanread_cursor_free(cursor));
  DONE(fanread_map_free(map));
}

static void a_walk_meets_what_is_there_all_the_time(int kind) {
  fanread_map *map;
  DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
  for (uint64_t i = 0; i < MANY; i++) DONE(fanread_map_u64_insert(map, i * 2, i, NULL));
  fanread_cursor *cursor;
  DONE(fanread_cursor_new(map, &cursor));
  uint64_t met = 0, last = 0;
  while (fanread_cursor_next(cursor) == FANREAD_OK) {
    uint64_t key = key_of(cursor);
    EXPECT(met == 0 || key > last);
    last = key;
    met += key % 2 == 0;
    /* Odd keys come and go. */
    fanread_map_u64_insert(map, key | 1, 0, NULL);
    if (key > 20) fanread_map_u64_remove(map, (key - 20) | 1, NULL);
  }
  EXPECT(met == MANY);
  DONE(fanread_cursor_read_ahead(cursor, 1));
  DONE(fanread_map_clear(map));
  EXPECT(fanread_cursor_seek_first(cursor) == FANREAD_NOT_FOUND);
  EXPECT(fanread_cursor_seek_last(cursor) == FANREAD_NOT_FOUND);
  /* With one entry at a time, a step sees what was just inserted. */
  DONE(fanread_map_u64_insert(map, 1, 1, NULL));
  DONE(fanread_cursor_next(cursor));
  DONE(fanread_map_u64_insert(map, 2, 2, NULL));
  DONE(fanread_cursor_next(cursor));
  EXPECT(key_of(cursor) == 2);
  DONE(fanread_cursor_free(cursor));
  DONE(fanread_map_free(map));
}

int main(void) {
  for (int kind = FANREAD_ORDERED_MAP; kind <= FANREAD_SKIP_LIST; kind++) {
    walks_go_both_ways(kind, 0);
    walks_go_both_ways(kind, 1);
    walks_go_both_ways(kind, 7);
    byte_values_are_lent(kind);
    a_walk_meets_what_is_there_all_the_time(kind);
  }
  puts("cursors: ok");
  return 0;
}
