/* Maps of all kinds, with keys and values of both forms. */
#include "check.h"

enum { FIRST_KIND = FANREAD_ORDERED_MAP, LAST_KIND = FANREAD_SKIP_LIST, MANY = 2000 };

static fanread_map *empty(int kind, int values) {
  fanread_map *map;
  DONE(VALID(fanread_map_new(kind, values, NULL, &map)));
  EXPECT(map != NULL);
  return map;
}

static size_t len_of(fanread_map *map) {
  size_t len;
  DONE(VALID(fanread_map_len(map, &len)));
  return len;
}

static void kinds_have_numbers_and_names(void) {
  static const char *const names[] = {"ordered-map", "u64-map",   "wormhole",
                                      "cuckoo-trie", "mlp-index", "skip-list"};
  for (int kind = FIRST_KIND; kind <= LAST_KIND; kind++) {
    const char *name = VALID(fanread_kind_name(kind));
    EXPECT(strcmp(name, names[kind - 1]) == 0);
    int32_t found, values;
    DONE(VALID(fanread_kind_of_name(name, &found)));
    EXPECT(found == kind);
    fanread_options options = {1, 1, 42, 1000};
    fanread_map *map;
    DONE(VALID(fanread_map_new_named(name, FANREAD_BYTES_VALUES, &options, &map)));
    DONE(VALID(fanread_map_kind(map, &found, &values)));
    EXPECT(found == kind && values == FANREAD_BYTES_VALUES);
    DONE(fanread_map_kind(map, NULL, NULL));
    DONE(VALID(fanread_map_free(map)));
    map = empty(kind, FANREAD_U64_VALUES);
    DONE(fanread_map_kind(map, NULL, &values));
    EXPECT(values == FANREAD_U64_VALUES);
    DONE(fanread_map_free(map));
  }
  EXPECT(fanread_kind_name(0) == NULL && fanread_kind_name(7) == NULL);
  EXPECT(strlen(VALID(fanread_version())) >= 5);
  EXPECT(strcmp(VALID(fanread_status_message(FANREAD_OK)), "done") == 0);
  EXPECT(strcmp(fanread_status_message(12345), "not a status") == 0);
}

static void points_by_bytes(int kind) {
  fanread_map *map = empty(kind, FANREAD_U64_VALUES);
  uint8_t room[8];
  uint64_t value = 77, old = 77;
  for (uint64_t i = 0; i < MANY; i++)
    DONE(VALID(fanread_map_insert(map, spell(i * 10, room), 8, i, &old)));
  EXPECT(old == 77 && len_of(map) == MANY);
  EXPECT(fanread_map_insert(map, spell(50, room), 8, 500, &old) == FANREAD_REPLACED && old == 5);
  EXPECT(fanread_map_insert(map, room, 8, 5, NULL) == FANREAD_REPLACED);
  for (uint64_t i = 0; i < MANY; i++) {
    DONE(VALID(fanread_map_get(map, spell(i * 10, room), 8, &value)));
    EXPECT(value == i);
    EXPECT(fanread_map_get(map, spell(i * 10 + 1, room), 8, &value) == FANREAD_NOT_FOUND);
  }
  DONE(VALID(fanread_map_contains(map, spell(0, room), 8)));
  DONE(fanread_map_get(map, room, 8, NULL));
  EXPECT(fanread_map_contains(map, spell(1, room), 8) == FANREAD_NOT_FOUND);

  EXPECT(VALID(fanread_map_replace(map, spell(10, room), 8, 11, &old)) == FANREAD_REPLACED);
  EXPECT(old == 1);
  EXPECT(fanread_map_replace(map, spell(11, room), 8, 11, &old) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_contains(map, room, 8) == FANREAD_NOT_FOUND);
  EXPECT(VALID(fanread_map_get_or_insert(map, spell(10, room), 8, 12, &value)) ==
         FANREAD_REFUSED);
  EXPECT(value == 11);
  DONE(fanread_map_get_or_insert(map, spell(11, room), 8, 12, &value));
  EXPECT(value == 12);
  EXPECT(VALID(fanread_map_compare_exchange(map, room, 8, 12, 13, &value)) == FANREAD_REPLACED);
  EXPECT(value == 12);
  EXPECT(fanread_map_compare_exchange(map, room, 8, 12, 14, &value) == FANREAD_REFUSED);
  EXPECT(value == 13);
  EXPECT(fanread_map_compare_exchange(map, spell(12, room), 8, 0, 1, NULL) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_map_remove(map, spell(11, room), 8, &old)));
  EXPECT(old == 13);
  EXPECT(fanread_map_remove(map, room, 8, &old) == FANREAD_NOT_FOUND);
  EXPECT(len_of(map) == MANY);

  fanread_buffer key = FANREAD_BUFFER_INIT;
  uint8_t other[8];
  DONE(VALID(fanread_map_find(map, FANREAD_AT_OR_ABOVE, spell(95, room), 8, &key, &value)));
  EXPECT(value == 10 && key.len == 8 && memcmp(key.data, spell(100, other), 8) == 0);
  DONE(fanread_map_find(map, FANREAD_ABOVE, other, 8, &key, &value));
  EXPECT(value == 11);
  DONE(fanread_map_find(map, FANREAD_AT_OR_BELOW, other, 8, &key, &value));
  EXPECT(value == 10);
  DONE(fanread_map_find(map, FANREAD_BELOW, other, 8, NULL, &value));
  EXPECT(value == 9);
  DONE(fanread_map_find(map, FANREAD_FIRST, NULL, 0, &key, &value));
  EXPECT(value == 0);
  DONE(fanread_map_find(map, FANREAD_LAST, NULL, 0, &key, NULL));
  EXPECT(memcmp(key.data, spell((MANY - 1) * 10, other), 8) == 0);
  EXPECT(fanread_map_find(map, FANREAD_ABOVE, other, 8, &key, &value) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_buffer_free(&key)));
  EXPECT(key.data == NULL && key.capacity == 0);

  fanread_memory usage;
  DONE(VALID(fanread_map_memory_usage(map, &usage)));
  EXPECT(usage.total_bytes > MANY * 8);
  DONE(VALID(fanread_process_huge_page_bytes(&value)));
  DONE(VALID(fanread_map_clear(map)));
  EXPECT(len_of(map) == 0);
  EXPECT(fanread_map_find(map, FANREAD_FIRST, NULL, 0, NULL, NULL) == FANREAD_NOT_FOUND);
  DONE(fanread_map_free(map));
}

static void points_by_numbers(int kind) {
  fanread_map *map = empty(kind, FANREAD_U64_VALUES);
  uint64_t value, old, key;
  uint8_t room[8];
  for (uint64_t i = 0; i < MANY; i++) DONE(VALID(fanread_map_u64_insert(map, i << 40, i, NULL)));
  EXPECT(fanread_map_u64_insert(map, UINT64_MAX, 9, NULL) == FANREAD_OK);
  EXPECT(fanread_map_u64_insert(map, UINT64_MAX, 8, &old) == FANREAD_REPLACED && old == 9);
  DONE(VALID(fanread_map_u64_get(map, 3ull << 40, &value)));
  EXPECT(value == 3);
  DONE(fanread_map_get(map, spell(3ull << 40, room), 8, &value));
  EXPECT(value == 3);
  DONE(VALID(fanread_map_u64_contains(map, 0)));
  EXPECT(fanread_map_u64_contains(map, 1) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_map_u64_remove(map, UINT64_MAX, &old)));
  EXPECT(old == 8 && fanread_map_u64_remove(map, UINT64_MAX, NULL) == FANREAD_NOT_FOUND);
  EXPECT(VALID(fanread_map_u64_replace(map, 0, 5, &old)) == FANREAD_REPLACED && old == 0);
  EXPECT(VALID(fanread_map_u64_get_or_insert(map, 0, 6, &value)) == FANREAD_REFUSED);
  EXPECT(value == 5);
  EXPECT(VALID(fanread_map_u64_compare_exchange(map, 0, 5, 0, &old)) == FANREAD_REPLACED);
  EXPECT(old == 5);
  DONE(VALID(fanread_map_u64_find(map, FANREAD_ABOVE, 0, &key, &value)));
  EXPECT(key == 1ull << 40 && value == 1);
  DONE(fanread_map_u64_find(map, FANREAD_LAST, 0, &key, &value));
  EXPECT(value == MANY - 1);
  DONE(fanread_map_free(map));
}

static void byte_values(int kind) {
  fanread_map *map = empty(kind, FANREAD_BYTES_VALUES);
  fanread_buffer value = FANREAD_BUFFER_INIT, key = FANREAD_BUFFER_INIT;
  uint8_t room[8];
  spell(1, room);
  DONE(VALID(fanread_map_insert_bytes(map, room, 8, "one", 3, &value)));
  EXPECT(value.data == NULL);
  EXPECT(fanread_map_insert_bytes(map, room, 8, "uno", 3, &value) == FANREAD_REPLACED);
  EXPECT(holds(value.data, value.len, "one"));
  DONE(VALID(fanread_map_get_bytes(map, room, 8, &value)));
  EXPECT(holds(value.data, value.len, "uno"));
  EXPECT(VALID(fanread_map_replace_bytes(map, room, 8, "eins", 4, &value)) == FANREAD_REPLACED);
  EXPECT(holds(value.data, value.len, "uno"));
  EXPECT(VALID(fanread_map_get_or_insert_bytes(map, room, 8, "", 0, &value)) == FANREAD_REFUSED);
  EXPECT(holds(value.data, value.len, "eins"));
  EXPECT(VALID(fanread_map_compare_exchange_bytes(map, room, 8, "eins", 4, "un", 2, &value)) ==
         FANREAD_REPLACED);
  EXPECT(fanread_map_compare_exchange_bytes(map, room, 8, "eins", 4, "un", 2, &value) ==
         FANREAD_REFUSED);
  EXPECT(holds(value.data, value.len, "un"));
  DONE(VALID(fanread_map_find_bytes(map, FANREAD_LAST, NULL, 0, &key, &value)));
  EXPECT(key.len == 8 && holds(value.data, value.len, "un"));
  DONE(VALID(fanread_map_remove_bytes(map, room, 8, &value)));
  EXPECT(holds(value.data, value.len, "un") && len_of(map) == 0);

  DONE(VALID(fanread_map_u64_insert_bytes(map, 2, "two", 3, NULL)));
  DONE(VALID(fanread_map_u64_get_bytes(map, 2, &value)));
  EXPECT(holds(value.data, value.len, "two"));
  EXPECT(VALID(fanread_map_u64_replace_bytes(map, 2, "", 0, NULL)) == FANREAD_REPLACED);
  EXPECT(VALID(fanread_map_u64_get_or_insert_bytes(map, 2, "2", 1, &value)) == FANREAD_REFUSED);
  EXPECT(value.len == 0 && value.data != NULL);
  DONE(fanread_map_u64_get_or_insert_bytes(map, 3, "3", 1, &value));
  EXPECT(holds(value.data, value.len, "3"));
  DONE(fanread_map_u64_remove_bytes(map, 3, NULL));
  EXPECT(VALID(fanread_map_u64_compare_exchange_bytes(map, 2, NULL, 0, "dos", 3, &value)) ==
         FANREAD_REPLACED);
  uint64_t number;
  DONE(VALID(fanread_map_u64_find_bytes(map, FANREAD_AT_OR_BELOW, 9, &number, &value)));
  EXPECT(number == 2 && holds(value.data, value.len, "dos"));
  DONE(VALID(fanread_map_u64_remove_bytes(map, 2, NULL)));
  EXPECT(fanread_map_u64_get_bytes(map, 2, &value) == FANREAD_NOT_FOUND);

  /* Values longer than anything a leaf could hold. */
  size_t long_len = 300000;
  char *text = malloc(long_len);
  memset(text, 'x', long_len);
  DONE(fanread_map_u64_insert_bytes(map, 3, text, long_len, NULL));
  DONE(fanread_map_u64_get_bytes(map, 3, &value));
  EXPECT(value.len == long_len && memcmp(value.data, text, long_len) == 0);
  free(text);
  DONE(fanread_buffer_free(&value));
  DONE(fanread_buffer_free(&key));
  DONE(fanread_map_free(map));
}

static void batches(int kind) {
  static uint64_t numbers[MANY], values[MANY];
  static uint8_t spelt[MANY][8], found[MANY];
  static fanread_bytes keys[MANY], strings[MANY];
  size_t hits;
  for (uint64_t i = 0; i < MANY; i++) {
    numbers[i] = i * 3;
    keys[i] = bytes_of(spell(i * 3, spelt[i]), 8);
    values[i] = i + 1;
    strings[i] = bytes_of(spelt[i], i % 9);
  }
  for (int by_numbers = 0; by_numbers < 2; by_numbers++) {
    /* Every other key is there. */
    fanread_map *map = empty(kind, FANREAD_U64_VALUES), *sorted, *texts;
    for (size_t i = 0; i < MANY; i += 2)
      DONE(by_numbers ? VALID(fanread_map_u64_insert_batch(map, numbers + i, values + i, 1))
                      : VALID(fanread_map_insert_batch(map, keys + i, values + i, 1)));
    static uint64_t answers[MANY];
    DONE(by_numbers
             ? VALID(fanread_map_u64_get_batch(map, numbers, MANY, answers, found, &hits))
             : VALID(fanread_map_get_batch(map, keys, MANY, answers, found, &hits)));
    EXPECT(hits == MANY / 2);
    for (size_t i = 0; i < MANY; i++)
      EXPECT(found[i] == (i % 2 == 0) && answers[i] == (i % 2 ? 0 : values[i]));
    memset(found, 9, sizeof found);
    DONE(by_numbers ? VALID(fanread_map_u64_contains_batch(map, numbers, MANY, found, &hits))
                    : VALID(fanread_map_contains_batch(map, keys, MANY, found, &hits)));
    EXPECT(hits == MANY / 2);
    for (size_t i = 0; i < MANY; i++) EXPECT(found[i] == (i % 2 == 0));
    DONE(by_numbers ? fanread_map_u64_insert_batch(map, numbers, values, MANY)
                    : fanread_map_insert_batch(map, keys, values, MANY));
    EXPECT(len_of(map) == MANY);
    DONE(by_numbers ? fanread_map_u64_get_batch(map, NULL, 0, NULL, NULL, NULL)
                    : fanread_map_get_batch(map, NULL, 0, NULL, NULL, NULL));

    DONE(by_numbers
             ? VALID(fanread_map_u64_from_sorted(kind, numbers, values, MANY, &sorted))
             : VALID(fanread_map_from_sorted(kind, keys, values, MANY, &sorted)));
    EXPECT(len_of(sorted) == MANY);
    DONE(fanread_map_u64_get_batch(sorted, numbers, MANY, answers, NULL, NULL));
    EXPECT(memcmp(answers, values, sizeof values) == 0);

    /* Values of bytes, some of them empty. */
    DONE(by_numbers
             ? VALID(fanread_map_u64_from_sorted_bytes(kind, numbers, strings, MANY - 1, &texts))
             : VALID(fanread_map_from_sorted_bytes(kind, keys, strings, MANY - 1, &texts)));
    DONE(by_numbers ? VALID(fanread_map_u64_insert_batch_bytes(texts, numbers, strings, 9))
                    : VALID(fanread_map_insert_batch_bytes(texts, keys, strings, 9)));
    static fanread_bytes slices[MANY];
    fanread_buffer room = FANREAD_BUFFER_INIT;
    DONE(by_numbers
             ? VALID(fanread_map_u64_get_batch_bytes(texts, numbers, MANY, slices, &room, &hits))
             : VALID(fanread_map_get_batch_bytes(texts, keys, MANY, slices, &room, &hits)));
    EXPECT(hits == MANY - 1 && slices[MANY - 1].data == NULL);
    for (size_t i = 0; i + 1 < MANY; i++)
      EXPECT(slices[i].data != NULL && slices[i].len == i % 9 &&
             memcmp(slices[i].data, spelt[i], i % 9) == 0);
    DONE(fanread_buffer_free(&room));

    DONE(fanread_map_free(sorted));

    uint64_t swapped[2] = {numbers[1], numbers[0]};
    MISUSED(fanread_map_u64_from_sorted(kind, swapped, values, 2, &sorted), FANREAD_NOT_ASCENDING);
    EXPECT(sorted == NULL);
    DONE(fanread_map_free(map));
    DONE(fanread_map_free(texts));
  }
}

static void strings_of_any_length(int kind) {
  fanread_map *map = empty(kind, FANREAD_U64_VALUES);
  static const char *const keys[] = {"", "a", "a\0b", "aa", "abcdefghijklmnopqrstuvwxyz", "b"};
  static const size_t lens[] = {0, 1, 3, 2, 26, 1};
  uint64_t value;
  for (size_t i = 0; i < COUNT(keys); i++)
    DONE(fanread_map_insert(map, lens[i] ? keys[i] : NULL, lens[i], i, NULL));
  for (size_t i = 0; i < COUNT(keys); i++) {
    DONE(fanread_map_get(map, keys[i], lens[i], &value));
    EXPECT(value == i);
  }
  fanread_cursor *cursor;
  DONE(fanread_cursor_new(map, &cursor));
  for (size_t i = 0; i < COUNT(keys); i++) {
    fanread_bytes key;
    DONE(fanread_cursor_next(cursor));
    DONE(fanread_cursor_key(cursor, &key));
    EXPECT(key.len == lens[i] && memcmp(key.data, keys[i], lens[i]) == 0);
  }
  EXPECT(fanread_cursor_next(cursor) == FANREAD_NOT_FOUND);
  DONE(fanread_cursor_free(cursor));
  /* Longer than any map but the skip list takes. */
  char *text = malloc(70000);
  memset(text, 'k', 70000);
  EXPECT(fanread_map_get(map, text, 70000, &value) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_remove(map, text, 70000, &value) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_replace(map, text, 70000, 1, &value) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_compare_exchange(map, text, 70000, 1, 2, NULL) == FANREAD_NOT_FOUND);
  EXPECT(fanread_map_find(map, FANREAD_ABOVE, text, 70000, NULL, &value) == FANREAD_NOT_FOUND);
  if (kind != FANREAD_SKIP_LIST) {
    fanread_bytes both[2] = {text_of("short"), bytes_of(text, 70000)};
    uint64_t values[2] = {1, 2};
    fanread_map *sorted;
    MISUSED(fanread_map_insert(map, text, 70000, 1, NULL), FANREAD_TOO_LONG);
    MISUSED(fanread_map_get_or_insert(map, text, 70000, 1, NULL), FANREAD_TOO_LONG);
    MISUSED(fanread_map_insert_batch(map, both, values, 2), FANREAD_TOO_LONG);
    both[0] = text_of("a");
    MISUSED(fanread_map_from_sorted(kind, both, values, 2, &sorted), FANREAD_TOO_LONG);
    EXPECT(sorted == NULL);
  } else {
    DONE(fanread_map_insert(map, text, 70000, 1, NULL));
    DONE(fanread_map_get(map, text, 70000, &value));
    DONE(fanread_map_remove(map, text, 70000, NULL));
  }
  EXPECT(len_of(map) == COUNT(keys));
  free(text);
  DONE(fanread_map_free(map));
}

int main(void) {
  kinds_have_numbers_and_names();
  for (int kind = FIRST_KIND; kind <= LAST_KIND; kind++) {
    points_by_bytes(kind);
    points_by_numbers(kind);
    byte_values(kind);
    batches(kind);
    if (takes_strings(kind)) strings_of_any_length(kind);
  }
  puts("maps: ok");
  return 0;
}
