/* Every function with NULL, with a handle of another type, and with arguments that are not what they are for: a status and a
 * message each time, and nothing is changed. */
#include "check.h"

static int32_t visit(void *context, fanread_bytes key, fanread_bytes value) {
  (void)context, (void)key, (void)value;
  return 0;
}

static int32_t u64_visit(void *context, uint64_t key, uint64_t value) {
  (void)context, (void)key, (void)value;
  return 0;
}

static int32_t number_visit(void *context, fanread_bytes key, uint64_t value) {
  (void)context, (void)key, (void)value;
  return 0;
}

static int32_t u64_bytes_visit(void *context, uint64_t key, fanread_bytes value) {
  (void)context, (void)key, (void)value;
  return 0;
}

static int32_t chunk_visit(void *context, const fanread_bytes *keys, const uint64_t *values, size_t entries) {
  (void)context, (void)keys, (void)values, (void)entries;
  return 0;
}

static int32_t u64_chunk_visit(void *context, const uint64_t *keys, const uint64_t *values, size_t entries) {
  (void)context, (void)keys, (void)values, (void)entries;
  return 0;
}

static const char *const path = "misuse.tmp";
static fanread_bytes strings[1] = {{(const uint8_t *)"k", 1}};
static uint64_t numbers[1] = {1};
static fanread_bytes slices[1], slice;
static uint64_t numbers_out[1], number;
static uint8_t founds[1];
static fanread_buffer room;
static fanread_memory usage;
static fanread_table_stats stats;
static size_t count;
static int32_t other;
static fanread_cursor *made_cursor;
static const fanread_map *held;

static void no_handle_is_null(void) {
  NOTHING(fanread_map_free(NULL));
  NULLED(fanread_map_kind(NULL, &other, &other));
  NULLED(fanread_map_len(NULL, &count));
  NULLED(fanread_map_clear(NULL));
  NULLED(fanread_map_memory_usage(NULL, &usage));
  NULLED(fanread_process_huge_page_bytes(NULL));
  NULLED(fanread_map_get(NULL, "k", 1, &number));
  NULLED(fanread_map_contains(NULL, "k", 1));
  NULLED(fanread_map_insert(NULL, "k", 1, 1, &number));
  NULLED(fanread_map_remove(NULL, "k", 1, &number));
  NULLED(fanread_map_replace(NULL, "k", 1, 1, &number));
  NULLED(fanread_map_get_or_insert(NULL, "k", 1, 1, &number));
  NULLED(fanread_map_compare_exchange(NULL, "k", 1, 1, 1, &number));
  NULLED(fanread_map_find(NULL, FANREAD_AT_OR_ABOVE, "k", 1, &room, &number));
  NULLED(fanread_map_get_batch(NULL, strings, 1, numbers_out, founds, &count));
  NULLED(fanread_map_contains_batch(NULL, strings, 1, founds, &count));
  NULLED(fanread_map_insert_batch(NULL, strings, numbers, 1));
  NULLED(fanread_map_get_bytes(NULL, "k", 1, &room));
  NULLED(fanread_map_insert_bytes(NULL, "k", 1, "k", 1, &room));
  NULLED(fanread_map_remove_bytes(NULL, "k", 1, &room));
  NULLED(fanread_map_replace_bytes(NULL, "k", 1, "k", 1, &room));
  NULLED(fanread_map_get_or_insert_bytes(NULL, "k", 1, "k", 1, &room));
  NULLED(fanread_map_compare_exchange_bytes(NULL, "k", 1, "k", 1, "k", 1, &room));
  NULLED(fanread_map_find_bytes(NULL, FANREAD_AT_OR_ABOVE, "k", 1, &room, &room));
  NULLED(fanread_map_get_batch_bytes(NULL, strings, 1, slices, &room, &count));
  NULLED(fanread_map_insert_batch_bytes(NULL, strings, strings, 1));
  NULLED(fanread_map_u64_get(NULL, 1, &number));
  NULLED(fanread_map_u64_contains(NULL, 1));
  NULLED(fanread_map_u64_insert(NULL, 1, 1, &number));
  NULLED(fanread_map_u64_remove(NULL, 1, &number));
  NULLED(fanread_map_u64_replace(NULL, 1, 1, &number));
  NULLED(fanread_map_u64_get_or_insert(NULL, 1, 1, &number));
  NULLED(fanread_map_u64_compare_exchange(NULL, 1, 1, 1, &number));
  NULLED(fanread_map_u64_find(NULL, FANREAD_AT_OR_ABOVE, 1, &number, &number));
  NULLED(fanread_map_u64_get_batch(NULL, numbers, 1, numbers_out, founds, &count));
  NULLED(fanread_map_u64_contains_batch(NULL, numbers, 1, founds, &count));
  NULLED(fanread_map_u64_insert_batch(NULL, numbers, numbers, 1));
  NULLED(fanread_map_u64_get_bytes(NULL, 1, &room));
  NULLED(fanread_map_u64_insert_bytes(NULL, 1, "k", 1, &room));
  NULLED(fanread_map_u64_remove_bytes(NULL, 1, &room));
  NULLED(fanread_map_u64_replace_bytes(NULL, 1, "k", 1, &room));
  NULLED(fanread_map_u64_get_or_insert_bytes(NULL, 1, "k", 1, &room));
  NULLED(fanread_map_u64_compare_exchange_bytes(NULL, 1, "k", 1, "k", 1, &room));
  NULLED(fanread_map_u64_find_bytes(NULL, FANREAD_AT_OR_ABOVE, 1, &number, &room));
  NULLED(fanread_map_u64_get_batch_bytes(NULL, numbers, 1, slices, &room, &count));
  NULLED(fanread_map_u64_insert_batch_bytes(NULL, numbers, strings, 1));
  NULLED(fanread_cursor_new(NULL, &made_cursor));
  NULLED(fanread_map_scan(NULL, FANREAD_FIRST, "k", 1, number_visit, NULL));
  NULLED(fanread_map_scan_bytes(NULL, FANREAD_FIRST, "k", 1, visit, NULL));
  NULLED(fanread_map_u64_scan(NULL, FANREAD_FIRST, 1, u64_visit, NULL));
  NULLED(fanread_map_u64_scan_bytes(NULL, FANREAD_FIRST, 1, u64_bytes_visit, NULL));
  NULLED(fanread_map_scan_chunks(NULL, FANREAD_FIRST, "k", 1, 1, chunk_visit, NULL));
  NULLED(fanread_map_u64_scan_chunks(NULL, FANREAD_FIRST, 1, 1, u64_chunk_visit, NULL));
  NOTHING(fanread_cursor_free(NULL));
  NULLED(fanread_cursor_read_ahead(NULL, 1));
  NULLED(fanread_cursor_seek(NULL, FANREAD_AT_OR_ABOVE, "k", 1));
  NULLED(fanread_cursor_u64_seek(NULL, FANREAD_AT_OR_ABOVE, 1));
  NULLED(fanread_cursor_seek_first(NULL));
  NULLED(fanread_cursor_seek_last(NULL));
  NULLED(fanread_cursor_next(NULL));
  NULLED(fanread_cursor_prev(NULL));
  NULLED(fanread_cursor_key(NULL, &slice));
  NULLED(fanread_cursor_u64_key(NULL, &number));
  NULLED(fanread_cursor_value(NULL, &number));
  NULLED(fanread_cursor_value_bytes(NULL, &slice));
  NULLED(fanread_pin(NULL));
  NULLED(fanread_repin(NULL));
  NOTHING(fanread_unpin(NULL));
  NULLED(fanread_guard_map(NULL, NULL, &held));
  NOTHING(fanread_table_builder_free(NULL));
  NULLED(fanread_table_builder_insert(NULL, "k", 1, "k", 1));
  NULLED(fanread_table_builder_len(NULL, &count));
  NULLED(fanread_table_builder_finish(NULL, path));
  NOTHING(fanread_table_free(NULL));
  NULLED(fanread_table_get_stats(NULL, &stats));
  NULLED(fanread_table_get(NULL, "k", 1, &slice));
  NULLED(fanread_table_get_batch(NULL, strings, 1, slices, &count));
  NULLED(fanread_table_scan(NULL, "k", 1, "k", 1, visit, NULL));
  NULLED(fanread_table_check(NULL));
  NOTHING(fanread_store_free(NULL));
  NULLED(fanread_store_sync(NULL));
  NULLED(fanread_store_check(NULL));
  NULLED(fanread_store_durability(NULL, &other));
  NULLED(fanread_store_len(NULL, &count));
  NULLED(fanread_store_get(NULL, "k", 1, &room));
  NULLED(fanread_store_insert(NULL, "k", 1, "k", 1, &room));
  NULLED(fanread_store_remove(NULL, "k", 1, &room));
  NULLED(fanread_store_get_batch(NULL, strings, 1, slices, &room, &count));
  NULLED(fanread_store_scan(NULL, visit, NULL));
  NOTHING(fanread_u64_store_free(NULL));
  NULLED(fanread_u64_store_sync(NULL));
  NULLED(fanread_u64_store_check(NULL));
  NULLED(fanread_u64_store_durability(NULL, &other));
  NULLED(fanread_u64_store_len(NULL, &count));
  NULLED(fanread_u64_store_get(NULL, 1, &number));
  NULLED(fanread_u64_store_insert(NULL, 1, 1, &number));
  NULLED(fanread_u64_store_remove(NULL, 1, &number));
  NULLED(fanread_u64_store_get_batch(NULL, numbers, 1, numbers_out, founds, &count));
  NULLED(fanread_u64_store_scan(NULL, u64_visit, NULL));
}

/* A handle of another type: a cursor where a map belongs, a map where a cursor does. */
static void handles_are_of_their_type(void *wrong, void *of_map) {
  MISUSED(fanread_map_free(wrong), FANREAD_HANDLE);
  MISUSED(fanread_map_kind(wrong, &other, &other), FANREAD_HANDLE);
  MISUSED(fanread_map_len(wrong, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_clear(wrong), FANREAD_HANDLE);
  MISUSED(fanread_map_memory_usage(wrong, &usage), FANREAD_HANDLE);
  MISUSED(fanread_map_get(wrong, "k", 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_contains(wrong, "k", 1), FANREAD_HANDLE);
  MISUSED(fanread_map_insert(wrong, "k", 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_remove(wrong, "k", 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_replace(wrong, "k", 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_get_or_insert(wrong, "k", 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_compare_exchange(wrong, "k", 1, 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_find(wrong, FANREAD_AT_OR_ABOVE, "k", 1, &room, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_get_batch(wrong, strings, 1, numbers_out, founds, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_contains_batch(wrong, strings, 1, founds, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_insert_batch(wrong, strings, numbers, 1), FANREAD_HANDLE);
  MISUSED(fanread_map_get_bytes(wrong, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_insert_bytes(wrong, "k", 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_remove_bytes(wrong, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_replace_bytes(wrong, "k", 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_get_or_insert_bytes(wrong, "k", 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_compare_exchange_bytes(wrong, "k", 1, "k", 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_find_bytes(wrong, FANREAD_AT_OR_ABOVE, "k", 1, &room, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_get_batch_bytes(wrong, strings, 1, slices, &room, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_insert_batch_bytes(wrong, strings, strings, 1), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_get(wrong, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_contains(wrong, 1), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_insert(wrong, 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_remove(wrong, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_replace(wrong, 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_get_or_insert(wrong, 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_compare_exchange(wrong, 1, 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_find(wrong, FANREAD_AT_OR_ABOVE, 1, &number, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_get_batch(wrong, numbers, 1, numbers_out, founds, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_contains_batch(wrong, numbers, 1, founds, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_insert_batch(wrong, numbers, numbers, 1), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_get_bytes(wrong, 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_insert_bytes(wrong, 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_remove_bytes(wrong, 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_replace_bytes(wrong, 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_get_or_insert_bytes(wrong, 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_compare_exchange_bytes(wrong, 1, "k", 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_find_bytes(wrong, FANREAD_AT_OR_ABOVE, 1, &number, &room), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_get_batch_bytes(wrong, numbers, 1, slices, &room, &count), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_insert_batch_bytes(wrong, numbers, strings, 1), FANREAD_HANDLE);
  MISUSED(fanread_cursor_new(wrong, &made_cursor), FANREAD_HANDLE);
  MISUSED(fanread_cursor_free(of_map), FANREAD_HANDLE);
  MISUSED(fanread_map_scan(wrong, FANREAD_FIRST, "k", 1, number_visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_map_scan_bytes(wrong, FANREAD_FIRST, "k", 1, visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_scan(wrong, FANREAD_FIRST, 1, u64_visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_scan_bytes(wrong, FANREAD_FIRST, 1, u64_bytes_visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_map_scan_chunks(wrong, FANREAD_FIRST, "k", 1, 1, chunk_visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_map_u64_scan_chunks(wrong, FANREAD_FIRST, 1, 1, u64_chunk_visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_cursor_read_ahead(of_map, 1), FANREAD_HANDLE);
  MISUSED(fanread_cursor_seek(of_map, FANREAD_AT_OR_ABOVE, "k", 1), FANREAD_HANDLE);
  MISUSED(fanread_cursor_u64_seek(of_map, FANREAD_AT_OR_ABOVE, 1), FANREAD_HANDLE);
  MISUSED(fanread_cursor_seek_first(of_map), FANREAD_HANDLE);
  MISUSED(fanread_cursor_seek_last(of_map), FANREAD_HANDLE);
  MISUSED(fanread_cursor_next(of_map), FANREAD_HANDLE);
  MISUSED(fanread_cursor_prev(of_map), FANREAD_HANDLE);
  MISUSED(fanread_cursor_key(of_map, &slice), FANREAD_HANDLE);
  MISUSED(fanread_cursor_u64_key(of_map, &number), FANREAD_HANDLE);
  MISUSED(fanread_cursor_value(of_map, &number), FANREAD_HANDLE);
  MISUSED(fanread_cursor_value_bytes(of_map, &slice), FANREAD_HANDLE);
  MISUSED(fanread_repin(wrong), FANREAD_HANDLE);
  MISUSED(fanread_unpin(wrong), FANREAD_HANDLE);
  MISUSED(fanread_guard_map(wrong, of_map, &held), FANREAD_HANDLE);
  MISUSED(fanread_table_builder_free(wrong), FANREAD_HANDLE);
  MISUSED(fanread_table_builder_insert(wrong, "k", 1, "k", 1), FANREAD_HANDLE);
  MISUSED(fanread_table_builder_len(wrong, &count), FANREAD_HANDLE);
  MISUSED(fanread_table_builder_finish(wrong, path), FANREAD_HANDLE);
  MISUSED(fanread_table_free(wrong), FANREAD_HANDLE);
  MISUSED(fanread_table_get_stats(wrong, &stats), FANREAD_HANDLE);
  MISUSED(fanread_table_get(wrong, "k", 1, &slice), FANREAD_HANDLE);
  MISUSED(fanread_table_get_batch(wrong, strings, 1, slices, &count), FANREAD_HANDLE);
  MISUSED(fanread_table_scan(wrong, "k", 1, "k", 1, visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_table_check(wrong), FANREAD_HANDLE);
  MISUSED(fanread_store_free(wrong), FANREAD_HANDLE);
  MISUSED(fanread_store_sync(wrong), FANREAD_HANDLE);
  MISUSED(fanread_store_check(wrong), FANREAD_HANDLE);
  MISUSED(fanread_store_durability(wrong, &other), FANREAD_HANDLE);
  MISUSED(fanread_store_len(wrong, &count), FANREAD_HANDLE);
  MISUSED(fanread_store_get(wrong, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_store_insert(wrong, "k", 1, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_store_remove(wrong, "k", 1, &room), FANREAD_HANDLE);
  MISUSED(fanread_store_get_batch(wrong, strings, 1, slices, &room, &count), FANREAD_HANDLE);
  MISUSED(fanread_store_scan(wrong, visit, NULL), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_free(wrong), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_sync(wrong), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_check(wrong), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_durability(wrong, &other), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_len(wrong, &count), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_get(wrong, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_insert(wrong, 1, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_remove(wrong, 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_get_batch(wrong, numbers, 1, numbers_out, founds, &count), FANREAD_HANDLE);
  MISUSED(fanread_u64_store_scan(wrong, u64_visit, NULL), FANREAD_HANDLE);
}

static void new_handles_have_a_place(void) {
  NULLED(fanread_map_new(1, 1, NULL, NULL));
  NULLED(fanread_map_new_named("wormhole", 1, NULL, NULL));
  fanread_map *map = (fanread_map *)strings;
  NULLED(fanread_map_new_named(NULL, 1, NULL, &map));
  EXPECT(map == NULL);
  MISUSED(fanread_map_new(0, 1, NULL, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_new(1, 3, NULL, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_new(7, 1, NULL, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_new_named("hash", 1, NULL, &map), FANREAD_UNKNOWN_KIND);
  EXPECT(strstr(fanread_last_error(), "hash") != NULL);
  NULLED(fanread_kind_of_name(NULL, &other));
  NULLED(fanread_kind_of_name("wormhole", NULL));
  MISUSED(fanread_kind_of_name("Wormhole", &other), FANREAD_UNKNOWN_KIND);

  NULLED(fanread_map_from_sorted(1, strings, numbers, 1, NULL));
  NULLED(fanread_map_from_sorted_bytes(1, strings, NULL, 1, &map));
  NULLED(fanread_map_u64_from_sorted(1, NULL, numbers, 1, &map));
  NULLED(fanread_map_u64_from_sorted_bytes(1, numbers, NULL, 1, &map));
  MISUSED(fanread_map_from_sorted(9, strings, numbers, 1, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_from_sorted(FANREAD_U64_MAP, strings, numbers, 1, &map), FANREAD_KEY_LENGTH);
  MISUSED(fanread_map_from_sorted_bytes(9, strings, strings, 1, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_u64_from_sorted(9, numbers, numbers, 1, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_u64_from_sorted_bytes(9, numbers, strings, 1, &map), FANREAD_UNKNOWN_KIND);
  MISUSED(fanread_map_u64_from_sorted(1, numbers, numbers, SIZE_MAX / 2, &map), FANREAD_ARGUMENT);
  uint64_t same[2] = {5, 5};
  MISUSED(fanread_map_u64_from_sorted(1, same, same, 2, &map), FANREAD_NOT_ASCENDING);
  EXPECT(map == NULL);

  fanread_table_builder *builder;
  fanread_table *table;
  NULLED(fanread_table_builder_new(NULL, NULL));
  MISUSED(fanread_table_builder_new((void *)((char *)numbers + 1), &builder), FANREAD_ARGUMENT);
  NULLED(fanread_table_open(NULL, &table));
  NULLED(fanread_table_open(path, NULL));
  MISUSED(fanread_table_open("no such file", &table), FANREAD_IO);
  EXPECT(table == NULL);

  fanread_store *store;
  fanread_u64_store *u64_store;
  fanread_store_options odd = {0};
  odd.segment_bytes = 1000;
  NULLED(fanread_store_in_memory(NULL, NULL));
  NULLED(fanread_store_create(NULL, NULL, &store));
  NULLED(fanread_store_open(NULL, &store));
  NULLED(fanread_u64_store_in_memory(NULL, NULL));
  NULLED(fanread_u64_store_create(NULL, NULL, &u64_store));
  NULLED(fanread_u64_store_open(path, NULL));
  MISUSED(fanread_store_in_memory(&odd, &store), FANREAD_ARGUMENT);
  MISUSED(fanread_u64_store_in_memory(&odd, &u64_store), FANREAD_ARGUMENT);
  odd.segment_bytes = 256;
  odd.probed_buckets = 5;
  MISUSED(fanread_store_create(path, &odd, &store), FANREAD_ARGUMENT);
  MISUSED(fanread_u64_store_create(path, &odd, &u64_store), FANREAD_ARGUMENT);
  MISUSED(fanread_store_create("no/such/folder/store", NULL, &store), FANREAD_IO);
  MISUSED(fanread_store_open("no such file", &store), FANREAD_IO);
  MISUSED(fanread_u64_store_open("no such file", &u64_store), FANREAD_IO);
  EXPECT(store == NULL && u64_store == NULL);
}

/* Pointers inside of a call that are NULL, misaligned, or too long. */
static void arguments_are_checked(fanread_map *map, fanread_map *texts, fanread_cursor *cursor) {
  NULLED(fanread_map_get(map, NULL, 1, &number));
  NULLED(fanread_map_insert_bytes(texts, "k", 1, NULL, 1, NULL));
  NULLED(fanread_map_compare_exchange_bytes(texts, "k", 1, NULL, 1, "k", 1, NULL));
  NULLED(fanread_map_len(map, NULL));
  NULLED(fanread_map_memory_usage(map, NULL));
  NULLED(fanread_map_get_batch(map, NULL, 1, numbers_out, NULL, NULL));
  NULLED(fanread_map_get_batch(map, strings, 1, NULL, NULL, NULL));
  NULLED(fanread_map_contains_batch(map, strings, 1, NULL, NULL));
  NULLED(fanread_map_get_batch_bytes(texts, strings, 1, slices, NULL, NULL));
  NULLED(fanread_map_insert_batch(map, strings, NULL, 1));
  fanread_bytes hole[2] = {{(const uint8_t *)"a", 1}, {NULL, 1}};
  uint64_t two[2] = {1, 2};
  NULLED(fanread_map_insert_batch(map, hole, two, 2));
  NULLED(fanread_map_insert_batch_bytes(texts, strings, hole + 1, 1));
  NULLED(fanread_map_scan(map, FANREAD_FIRST, NULL, 0, NULL, NULL));
  NULLED(fanread_map_scan(map, FANREAD_ABOVE, NULL, 1, number_visit, NULL));
  MISUSED(fanread_map_scan(map, 0, NULL, 0, number_visit, NULL), FANREAD_ARGUMENT);
  MISUSED(fanread_map_scan_bytes(map, FANREAD_FIRST, NULL, 0, visit, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_scan(texts, FANREAD_FIRST, NULL, 0, number_visit, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_u64_scan(map, FANREAD_FIRST, 0, u64_visit, NULL), FANREAD_KEY_LENGTH);
  NULLED(fanread_map_scan_chunks(map, FANREAD_FIRST, NULL, 0, 1, NULL, NULL));
  NULLED(fanread_map_scan_chunks(map, FANREAD_ABOVE, NULL, 1, 1, chunk_visit, NULL));
  NULLED(fanread_map_u64_scan_chunks(map, FANREAD_FIRST, 0, 1, NULL, NULL));
  MISUSED(fanread_map_scan_chunks(map, 0, NULL, 0, 1, chunk_visit, NULL), FANREAD_ARGUMENT);
  MISUSED(fanread_map_scan_chunks(texts, FANREAD_FIRST, NULL, 0, 1, chunk_visit, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_u64_scan_chunks(texts, FANREAD_FIRST, 0, 1, u64_chunk_visit, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_u64_scan_chunks(map, FANREAD_FIRST, 0, 1, u64_chunk_visit, NULL), FANREAD_KEY_LENGTH);
  NULLED(fanread_cursor_new(map, NULL));
  NULLED(fanread_cursor_seek(cursor, FANREAD_AT_OR_ABOVE, NULL, 1));
  NULLED(fanread_cursor_key(cursor, NULL));
  NULLED(fanread_cursor_u64_key(cursor, NULL));
  NULLED(fanread_cursor_value(cursor, NULL));
  NULLED(fanread_cursor_value_bytes(cursor, NULL));
  void *odd = (char *)numbers + 1;
  MISUSED(fanread_pin(odd), FANREAD_ARGUMENT);
  MISUSED(fanread_process_huge_page_bytes(odd), FANREAD_ARGUMENT);
  MISUSED(fanread_repin(odd), FANREAD_HANDLE);
  fanread_guard *guard;
  DONE(fanread_pin(&guard));
  NULLED(fanread_guard_map(guard, map, NULL));
  NULLED(fanread_guard_map(guard, NULL, &held));
  EXPECT(held == NULL);
  MISUSED(fanread_guard_map(guard, (fanread_map *)cursor, &held), FANREAD_HANDLE);
  MISUSED(fanread_guard_map(guard, odd, &held), FANREAD_HANDLE);
  EXPECT(held == NULL);
  /* A map of a guard is not the caller's to free. */
  DONE(fanread_guard_map(guard, map, &held));
  MISUSED(fanread_map_free((fanread_map *)held), FANREAD_HANDLE);
  MISUSED(fanread_map_get(held, "k", 1, odd), FANREAD_ARGUMENT);
  MISUSED(fanread_map_get_bytes(held, "k", 1, &room), FANREAD_VALUE_KIND);
  DONE(fanread_map_get(held, "k", 1, &number));
  DONE(fanread_unpin(guard));
  MISUSED(fanread_map_get(map, "k", 1, odd), FANREAD_ARGUMENT);
  MISUSED(fanread_map_get(odd, "k", 1, &number), FANREAD_HANDLE);
  MISUSED(fanread_map_get(map, "k", SIZE_MAX, &number), FANREAD_ARGUMENT);
  MISUSED(fanread_map_u64_get_batch(map, odd, 1, numbers_out, NULL, NULL), FANREAD_ARGUMENT);
  fanread_buffer torn = {(uint8_t *)numbers, 9, 8};
  MISUSED(fanread_map_get_bytes(texts, "k", 1, &torn), FANREAD_ARGUMENT);
  MISUSED(fanread_buffer_free(&torn), FANREAD_ARGUMENT);
  torn.capacity = 0;
  torn.len = 0;
  MISUSED(fanread_map_find(map, FANREAD_FIRST, NULL, 0, &torn, NULL), FANREAD_ARGUMENT);
  NOTHING(fanread_buffer_free(NULL));
  MISUSED(fanread_map_find(map, 0, "k", 1, NULL, NULL), FANREAD_ARGUMENT);
  MISUSED(fanread_map_find(map, 7, "k", 1, NULL, NULL), FANREAD_ARGUMENT);
  /* One buffer holds one byte string. */
  fanread_buffer two_rooms[2] = {FANREAD_BUFFER_INIT, FANREAD_BUFFER_INIT};
  fanread_buffer *across = (fanread_buffer *)&two_rooms[0].len;
  MISUSED(fanread_map_find_bytes(texts, FANREAD_FIRST, NULL, 0, two_rooms, two_rooms), FANREAD_ARGUMENT);
  MISUSED(fanread_map_find_bytes(texts, FANREAD_FIRST, NULL, 0, two_rooms, across), FANREAD_ARGUMENT);
  EXPECT(two_rooms[0].data == NULL && two_rooms[1].data == NULL);
  DONE(fanread_map_find_bytes(texts, FANREAD_FIRST, NULL, 0, two_rooms, two_rooms + 1));
  DONE(fanread_buffer_free(two_rooms));
  DONE(fanread_buffer_free(two_rooms + 1));
  MISUSED(fanread_cursor_seek(cursor, 99, "k", 1), FANREAD_ARGUMENT);
}

/* A key of a wrong length behind many others: no place has an answer, nor anything that looks like a pointer. */
static void a_batch_that_fails_answers_nothing(int kind) {
  enum { KEYS = 100 };
  fanread_bytes keys[KEYS], found[KEYS];
  uint64_t values[KEYS];
  uint8_t is_there[KEYS];
  size_t hits = 77;
  for (int i = 0; i < KEYS; i++) {
    keys[i] = bytes_of("12345678", 8);
    found[i] = bytes_of(NULL, 9);
    values[i] = is_there[i] = 9;
  }
  keys[KEYS - 1].len = 7;
  fanread_map *map, *texts;
  DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &map));
  DONE(fanread_map_new(kind, FANREAD_BYTES_VALUES, NULL, &texts));
  DONE(fanread_map_insert(map, "12345678", 8, 1, NULL));
  DONE(fanread_map_insert_bytes(texts, "12345678", 8, "v", 1, NULL));
  MISUSED(fanread_map_get_batch(map, keys, KEYS, values, is_there, &hits), FANREAD_KEY_LENGTH);
  MISUSED(fanread_map_contains_batch(map, keys, KEYS, is_there, &hits), FANREAD_KEY_LENGTH);
  MISUSED(fanread_map_get_batch_bytes(texts, keys, KEYS, found, &room, &hits), FANREAD_KEY_LENGTH);
  for (int i = 0; i < KEYS; i++) {
    EXPECT(values[i] == 9 && is_there[i] == 9 && found[i].data == NULL && found[i].len == 9);
  }
  EXPECT(hits == 77);
  DONE(fanread_map_free(map));
  DONE(fanread_map_free(texts));
}

/* The forms of keys and values are those of the map; where they are not, nothing changes. */
static void forms_are_those_of_the_map(fanread_map *map, fanread_map *texts) {
  MISUSED(fanread_map_get(texts, "k", 1, &number), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_insert(texts, "new", 3, 1, &number), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_remove(texts, "k", 1, &number), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_remove(texts, "k", 1, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_replace(texts, "k", 1, 1, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_get_or_insert(texts, "new", 3, 1, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_compare_exchange(texts, "k", 1, 1, 2, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_find(texts, FANREAD_FIRST, NULL, 0, NULL, &number), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_get_batch(texts, strings, 1, numbers_out, NULL, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_insert_batch(texts, strings, numbers, 1), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_get_bytes(map, "k", 1, &room), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_insert_bytes(map, "new", 3, "v", 1, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_remove_bytes(map, "k", 1, &room), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_get_batch_bytes(map, strings, 1, slices, &room, NULL), FANREAD_VALUE_KIND);
  MISUSED(fanread_map_insert_batch_bytes(map, strings, strings, 1), FANREAD_VALUE_KIND);
  fanread_cursor *cursor;
  DONE(fanread_cursor_new(map, &cursor));
  MISUSED(fanread_cursor_key(cursor, &slice), FANREAD_NO_ENTRY);
  MISUSED(fanread_cursor_u64_key(cursor, &number), FANREAD_NO_ENTRY);
  MISUSED(fanread_cursor_value(cursor, &number), FANREAD_NO_ENTRY);
  MISUSED(fanread_cursor_value_bytes(cursor, &slice), FANREAD_VALUE_KIND);
  DONE(fanread_cursor_next(cursor));
  MISUSED(fanread_cursor_u64_key(cursor, &number), FANREAD_KEY_LENGTH);
  EXPECT(fanread_cursor_next(cursor) == FANREAD_NOT_FOUND);
  MISUSED(fanread_cursor_value(cursor, &number), FANREAD_NO_ENTRY);
  DONE(fanread_cursor_free(cursor));
  MISUSED(fanread_map_u64_find(map, FANREAD_FIRST, 0, &number, NULL), FANREAD_KEY_LENGTH);

  for (int kind = FANREAD_U64_MAP; kind <= FANREAD_MLP_INDEX; kind += 3) {
    fanread_map *numbered;
    DONE(fanread_map_new(kind, FANREAD_U64_VALUES, NULL, &numbered));
    MISUSED(fanread_map_get(numbered, "1234567", 7, &number), FANREAD_KEY_LENGTH);
    MISUSED(fanread_map_insert(numbered, "123456789", 9, 1, NULL), FANREAD_KEY_LENGTH);
    MISUSED(fanread_map_get_batch(numbered, strings, 1, numbers_out, NULL, NULL), FANREAD_KEY_LENGTH);
    fanread_bytes keys[2] = {{(const uint8_t *)"12345678", 8}, {(const uint8_t *)"1", 1}};
    uint64_t values[2] = {1, 2};
    MISUSED(fanread_map_insert_batch(numbered, keys, values, 2), FANREAD_KEY_LENGTH);
    DONE(fanread_cursor_new(numbered, &cursor));
    MISUSED(fanread_cursor_seek(cursor, FANREAD_ABOVE, "1", 1), FANREAD_KEY_LENGTH);
    DONE(fanread_cursor_free(cursor));
    DONE(fanread_map_len(numbered, &count));
    EXPECT(count == 0);
    DONE(fanread_map_free(numbered));
    a_batch_that_fails_answers_nothing(kind);
  }
  DONE(fanread_map_len(map, &count));
  EXPECT(count == 1);
  DONE(fanread_map_len(texts, &count));
  EXPECT(count == 1);
}

static void files_are_what_they_are_for(void) {
  fanread_table_builder *builder;
  fanread_table *table;
  fanread_store *store;
  fanread_u64_store *u64_store;
  DONE(fanread_table_builder_new(NULL, &builder));
  NULLED(fanread_table_builder_insert(builder, NULL, 1, "v", 1));
  NULLED(fanread_table_builder_len(builder, NULL));
  NULLED(fanread_table_builder_finish(builder, NULL));
  MISUSED(fanread_table_builder_finish(builder, path), FANREAD_NO_TABLE);
  DONE(fanread_table_builder_insert(builder, "k", 1, "v", 1));
  MISUSED(fanread_table_builder_insert(builder, "kk", 2, "v", 1), FANREAD_KEY_LENGTH);
  MISUSED(fanread_table_builder_insert(builder, "", 0, "v", 1), FANREAD_KEY_LENGTH);
  MISUSED(fanread_table_builder_insert(builder, "l", 1, "vv", 2), FANREAD_NO_TABLE);
  MISUSED(fanread_table_builder_finish(builder, "no/such/folder/table"), FANREAD_IO);
  DONE(fanread_table_builder_finish(builder, path));
  DONE(fanread_table_open(path, &table));
  NULLED(fanread_table_get_stats(table, NULL));
  NULLED(fanread_table_get(table, NULL, 1, &slice));
  NULLED(fanread_table_get_batch(table, strings, 1, NULL, NULL));
  NULLED(fanread_table_scan(table, NULL, 0, NULL, 0, NULL, NULL));
  DONE(fanread_table_free(table));
  DONE(fanread_table_builder_insert(builder, "k", 1, "w", 1));
  MISUSED(fanread_table_builder_finish(builder, path), FANREAD_NO_TABLE);
  DONE(fanread_table_builder_free(builder));

  fanread_table_options few = {0};
  for (int wrong = 0; wrong < 4; wrong++) {
    few.hash_ratio = wrong == 0 ? -1.0 : wrong == 1 ? 1e-300 : wrong == 2 ? 1e300 : 0.9;
    few.block_buckets = wrong == 3 ? UINT32_MAX : 0;
    DONE(fanread_table_builder_new(&few, &builder));
    DONE(fanread_table_builder_insert(builder, "k", 1, "v", 1));
    DONE(fanread_table_builder_insert(builder, "l", 1, "v", 1));
    MISUSED(fanread_table_builder_finish(builder, path), FANREAD_ARGUMENT);
    DONE(fanread_table_builder_free(builder));
  }
  few.identity_first = 1;
  DONE(fanread_table_builder_new(&few, &builder));
  MISUSED(fanread_table_builder_insert(builder, "k", 1, "v", 1), FANREAD_KEY_LENGTH);
  DONE(fanread_table_builder_free(builder));

  /* A table is no store, and a store no table; one that is open is busy. */
  MISUSED(fanread_store_open(path, &store), FANREAD_DAMAGED);
  MISUSED(fanread_u64_store_open(path, &u64_store), FANREAD_DAMAGED);
  MISUSED(fanread_store_create(path, NULL, &store), FANREAD_IO);
  remove(path);
  DONE(fanread_store_create(path, NULL, &store));
  fanread_store *second;
  MISUSED(fanread_store_open(path, &second), FANREAD_BUSY);
  MISUSED(fanread_table_open(path, &table), FANREAD_DAMAGED);
  NULLED(fanread_store_get(store, NULL, 1, &room));
  NULLED(fanread_store_insert(store, "k", 1, NULL, 1, NULL));
  NULLED(fanread_store_len(store, NULL));
  NULLED(fanread_store_durability(store, NULL));
  NULLED(fanread_store_get_batch(store, strings, 1, slices, NULL, NULL));
  NULLED(fanread_store_scan(store, NULL, NULL));
  /* All buckets of the largest segment are one more than there may be. */
  fanread_store_options options = {0};
  options.segment_bytes = (size_t)4 << 20;
  options.probed_buckets = options.segment_bytes / 64;
  MISUSED(fanread_store_in_memory(&options, &second), FANREAD_ARGUMENT);
  MISUSED(fanread_u64_store_in_memory(&options, &u64_store), FANREAD_ARGUMENT);
  options.probed_buckets--;
  DONE(fanread_u64_store_in_memory(&options, &u64_store));
  DONE(fanread_u64_store_free(u64_store));
  size_t too_long = (size_t)1 << 24;
  char *text = calloc(1, too_long);
  MISUSED(fanread_store_insert(store, text, too_long, "v", 1, NULL), FANREAD_TOO_LONG);
  EXPECT(fanread_store_get(store, text, too_long, &room) == FANREAD_NOT_FOUND);
  EXPECT(fanread_store_remove(store, text, too_long, &room) == FANREAD_NOT_FOUND);
  free(text);
  DONE(fanread_store_free(store));
  remove(path);
  DONE(fanread_u64_store_create(path, NULL, &u64_store));
  NULLED(fanread_u64_store_len(u64_store, NULL));
  NULLED(fanread_u64_store_durability(u64_store, NULL));
  NULLED(fanread_u64_store_get_batch(u64_store, numbers, 1, NULL, NULL, NULL));
  NULLED(fanread_u64_store_scan(u64_store, NULL, NULL));
  DONE(fanread_u64_store_free(u64_store));
  MISUSED(fanread_store_open(path, &store), FANREAD_DAMAGED);
  remove(path);
}

static void a_success_leaves_the_message_alone(fanread_map *map) {
  NULLED(fanread_map_get(NULL, "k", 1, &number));
  EXPECT(strcmp(fanread_last_error(), "map is NULL") == 0);
  DONE(fanread_map_get(map, "k", 1, &number));
  EXPECT(fanread_map_get(map, "absent", 6, &number) == FANREAD_NOT_FOUND);
  EXPECT(strcmp(fanread_last_error(), "map is NULL") == 0);
}

int main(void) {
  fanread_map *map, *texts;
  fanread_cursor *cursor;
  EXPECT(VALID(fanread_last_error())[0] == '\0');
  DONE(fanread_map_new(FANREAD_ORDERED_MAP, FANREAD_U64_VALUES, NULL, &map));
  DONE(fanread_map_new(FANREAD_WORMHOLE, FANREAD_BYTES_VALUES, NULL, &texts));
  DONE(fanread_map_insert(map, "k", 1, 1, NULL));
  DONE(fanread_map_insert_bytes(texts, "k", 1, "v", 1, NULL));
  DONE(fanread_cursor_new(map, &cursor));
  no_handle_is_null();
  handles_are_of_their_type(cursor, map);
  new_handles_have_a_place();
  arguments_are_checked(map, texts, cursor);
  forms_are_those_of_the_map(map, texts);
  files_are_what_they_are_for();
  a_success_leaves_the_message_alone(map);
  DONE(fanread_cursor_free(cursor));
  DONE(fanread_map_free(texts));
  DONE(fanread_map_free(map));
  DONE(fanread_buffer_free(&room));
  puts("misuse: ok");
  return 0;
}
