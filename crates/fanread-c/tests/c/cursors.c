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

struct seen {
  uint64_t next;
  int64_t step;
  size_t count, stop_at;
  const fanread_map *map;
};

static int32_t see(struct seen *seen, uint64_t key, uint64_t value) {
  EXPECT(key == seen->next * 10 && value == seen->next);
  seen->next += (uint64_t)seen->step;
  /* The function may use the map. */
  DONE(fanread_map_u64_contains(seen->map, key));
  return ++seen->count == seen->stop_at;
}

static int32_t see_numbers(void *context, uint64_t key, uint64_t value) {
  return see(context, key, value);
}

static int32_t see_number(void *context, fanread_bytes key, uint64_t value) {
  uint64_t number = 0;
  EXPECT(key.len == 8);
  for (size_t i = 0; i < 8; i++) number = number << 8 | key.data[i];
  return see(context, number, value);
}

static int32_t see_bytes(void *context, fanread_bytes key, fanread_bytes value) {
  uint64_t number = 0;
  for (size_t i = 0; i < value.len; i++) number = number << 8 | value.data[i];
  return see_number(context, key, number);
}

static int32_t see_u64_bytes(void *context, uint64_t key, fanread_bytes value) {
  EXPECT(value.len == 8);
  return see(context, key, key / 10);
}

/* Takes all of a chunk, and then tells whether to stop. */
static int32_t see_some_numbers(void *context, const uint64_t *keys, const uint64_t *values, size_t count) {
  struct seen *seen = context;
  EXPECT(count > 0);
  for (size_t i = 0; i < count; i++) see(seen, keys[i], values[i]);
  return seen->stop_at != 0 && seen->count >= seen->stop_at;
}

static int32_t see_some(void *context, const fanread_bytes *keys, const uint64_t *values, size_t count) {
  EXPECT(count > 0);
  for (size_t i = 0; i < count; i++) see_number(context, keys[i], values[i]);
  return 0;
}

static void scans_go_both_ways(int kind) {
  static uint64_t keys[MANY], values[MANY];
  static uint8_t spelt[MANY][8];
  static fanread_bytes texts[MANY];
  for (uint64_t i = 0; i < MANY; i++) {
    keys[i] = i * 10, values[i] = i;
    texts[i] = bytes_of(spell(i, spelt[i]), 8);
  }
  fanread_map *map, *of_bytes;
  uint8_t room[8];
  DONE(fanread_map_u64_from_sorted(kind, keys, values, MANY, &map));
  DONE(fanread_map_u64_from_sorted_bytes(kind, keys, texts, MANY, &of_bytes));
  struct seen all = {0, 1, 0, 0, map};
  DONE(VALID(fanread_map_u64_scan(map, FANREAD_FIRST, 0, see_numbers, &all)));
  EXPECT(all.count == MANY);
  struct seen down = {MANY - 1, -1, 0, 0, map};
  DONE(VALID(fanread_map_scan(map, FANREAD_LAST, NULL, 0, see_number, &down)));
  EXPECT(down.count == MANY);
  struct seen part = {6, 1, 0, 20, map};
  DONE(fanread_map_scan(map, FANREAD_AT_OR_ABOVE, spell(55, room), 8, see_number, &part));
  EXPECT(part.count == 20);
  struct seen above = {7, 1, 0, 1, map};
  DONE(fanread_map_u64_scan(map, FANREAD_ABOVE, 60, see_numbers, &above));
  struct seen below = {5, -1, 0, 0, of_bytes};
  DONE(VALID(fanread_map_scan_bytes(of_bytes, FANREAD_BELOW, spell(60, room), 8, see_bytes, &below)));
  EXPECT(below.count == 6);
  struct seen up_to = {6, -1, 0, 3, of_bytes};
  DONE(VALID(fanread_map_u64_scan_bytes(of_bytes, FANREAD_AT_OR_BELOW, 60, see_u64_bytes, &up_to)));
  EXPECT(up_to.count == 3);
  EXPECT(fanread_map_u64_scan(map, FANREAD_ABOVE, UINT64_MAX, see_numbers, &all) == FANREAD_NOT_FOUND);

  /* The same in chunks, as many as there are, or as are wanted: none, one, and around a chunk's end. */
  struct seen chunks = {0, 1, 0, 0, map};
  DONE(VALID(fanread_map_u64_scan_chunks(map, FANREAD_FIRST, 0, SIZE_MAX, see_some_numbers, &chunks)));
  EXPECT(chunks.count == MANY);
  struct seen chunks_down = {MANY - 1, -1, 0, 0, map};
  DONE(VALID(fanread_map_scan_chunks(map, FANREAD_LAST, NULL, 0, SIZE_MAX, see_some, &chunks_down)));
  EXPECT(chunks_down.count == MANY);
  for (size_t limit = 1; limit < 100; limit++) {
    struct seen first = {6, 1, 0, 0, map}, last = {6, -1, 0, 0, map};
    DONE(fanread_map_scan_chunks(map, FANREAD_AT_OR_ABOVE, spell(55, room), 8, limit, see_some, &first));
    EXPECT(first.count == limit);
    DONE(fanread_map_u64_scan_chunks(map, FANREAD_AT_OR_BELOW, 60, limit, see_some_numbers, &last));
    EXPECT(last.count == (limit < 7 ? limit : 7));
  }
  struct seen stopped = {7, 1, 0, 40, map};
  DONE(fanread_map_u64_scan_chunks(map, FANREAD_ABOVE, 60, MANY, see_some_numbers, &stopped));
  EXPECT(stopped.count >= 40 && stopped.count < 40 + 256);
  EXPECT(fanread_map_u64_scan_chunks(map, FANREAD_FIRST, 0, 0, see_some_numbers, &all) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_scan_chunks(map, FANREAD_BELOW, spell(0, room), 8, 9, see_some, &all) == FANREAD_NOT_FOUND);
  EXPECT(all.count == MANY);
  DONE(fanread_map_free(of_bytes));
  DONE(fanread_map_free(map));
}

int main(void) {
  for (int kind = FANREAD_ORDERED_MAP; kind <= FANREAD_SKIP_LIST; kind++) {
    walks_go_both_ways(kind, 0);
    walks_go_both_ways(kind, 1);
    walks_go_both_ways(kind, 7);
    byte_values_are_lent(kind);
    scans_go_both_ways(kind);
    a_walk_meets_what_is_there_all_the_time(kind);
  }
  puts("cursors: ok");
  return 0;
}
