/* Tables and stores: what is written is there, and is still there when the file is opened again. */
#include "check.h"

enum { MANY = 3000 };

static const char *const path = "files.tmp";

struct seen {
  size_t count, stop_at;
  uint64_t sum;
  int ascends;
  uint8_t last[8];
};

static int32_t see(void *context, fanread_bytes key, fanread_bytes value) {
  struct seen *seen = context;
  EXPECT(key.len == 8 && value.data != NULL);
  seen->ascends &= seen->count == 0 || memcmp(seen->last, key.data, 8) < 0;
  memcpy(seen->last, key.data, 8);
  seen->sum += value.len ? value.data[0] : 0;
  return ++seen->count == seen->stop_at;
}

static int32_t see_u64(void *context, uint64_t key, uint64_t value) {
  struct seen *seen = context;
  EXPECT(value == key * 2);
  seen->sum += key;
  return ++seen->count == seen->stop_at;
}

static void a_table_has_what_was_built(const fanread_table_options *options) {
  fanread_table_builder *builder;
  uint8_t key[8], value[3] = {0};
  size_t count;
  DONE(VALID(fanread_table_builder_new(options, &builder)));
  for (uint64_t i = 0; i < MANY; i++) {
    value[0] = (uint8_t)i;
    DONE(VALID(fanread_table_builder_insert(builder, spell(i * 7919 % MANY, key), 8, value, 3)));
  }
  DONE(VALID(fanread_table_builder_len(builder, &count)));
  EXPECT(count == MANY);
  DONE(VALID(fanread_table_builder_finish(builder, path)));
  DONE(VALID(fanread_table_builder_free(builder)));

  fanread_table *table;
  fanread_table_stats stats;
  DONE(VALID(fanread_table_open(path, &table)));
  remove(path);
  DONE(VALID(fanread_table_get_stats(table, &stats)));
  EXPECT(stats.entries == MANY && stats.key_len == 8 && stats.value_len == 3);
  DONE(VALID(fanread_table_check(table)));
  fanread_bytes found;
  for (uint64_t i = 0; i < MANY; i++) {
    DONE(VALID(fanread_table_get(table, spell(i * 7919 % MANY, key), 8, &found)));
    EXPECT(found.len == 3 && found.data[0] == (uint8_t)i);
  }
  DONE(fanread_table_get(table, key, 8, NULL));
  EXPECT(fanread_table_get(table, spell(MANY, key), 8, &found) == FANREAD_NOT_FOUND);
  EXPECT(fanread_table_get(table, key, 7, &found) == FANREAD_NOT_FOUND);

  static uint8_t spelt[MANY][8];
  static fanread_bytes keys[MANY], values[MANY];
  for (uint64_t i = 0; i < MANY; i++) keys[i] = bytes_of(spell(i * 2, spelt[i]), 8);
  DONE(VALID(fanread_table_get_batch(table, keys, MANY, values, &count)));
  EXPECT(count == MANY / 2);
  for (uint64_t i = 0; i < MANY; i++) EXPECT((values[i].data != NULL) == (i < MANY / 2));

  struct seen seen = {0, 0, 0, 1, {0}};
  DONE(VALID(fanread_table_scan(table, NULL, 0, NULL, 0, see, &seen)));
  EXPECT(seen.count == MANY && seen.ascends);
  struct seen part = {0, 0, 0, 1, {0}};
  uint8_t end[8];
  DONE(fanread_table_scan(table, spell(10, key), 8, spell(20, end), 8, see, &part));
  EXPECT(part.count == 10 && memcmp(part.last, spell(19, end), 8) == 0);
  struct seen stopped = {0, 3, 0, 1, {0}};
  DONE(fanread_table_scan(table, NULL, 0, NULL, 0, see, &stopped));
  EXPECT(stopped.count == 3);
  EXPECT(fanread_table_scan(table, key, 8, key, 8, see, &part) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_table_free(table)));
}

static void use_store(fanread_store *store) {
  fanread_buffer value = FANREAD_BUFFER_INIT;
  uint8_t key[8];
  char text[40];
  size_t count;
  for (uint64_t i = 0; i < MANY; i++) {
    int len = sprintf(text, "value %d", (int)i);
    DONE(VALID(fanread_store_insert(store, spell(i, key), 8, text, (size_t)len, &value)));
  }
  EXPECT(fanread_store_insert(store, spell(1, key), 8, "", 0, &value) == FANREAD_REPLACED);
  EXPECT(holds(value.data, value.len, "value 1"));
  DONE(VALID(fanread_store_get(store, spell(2, key), 8, &value)));
  EXPECT(holds(value.data, value.len, "value 2"));
  DONE(fanread_store_get(store, key, 8, NULL));
  DONE(VALID(fanread_store_remove(store, key, 8, &value)));
  EXPECT(holds(value.data, value.len, "value 2"));
  EXPECT(fanread_store_get(store, key, 8, &value) == FANREAD_NOT_FOUND && value.len == 0);
  EXPECT(fanread_store_remove(store, key, 8, NULL) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_store_len(store, &count)));
  EXPECT(count == MANY - 1);
  DONE(VALID(fanread_store_sync(store)));
  DONE(VALID(fanread_store_check(store)));
  struct seen seen = {0, 0, 0, 1, {0}};
  DONE(VALID(fanread_store_scan(store, see, &seen)));
  EXPECT(seen.count == MANY - 1);
  DONE(fanread_buffer_free(&value));
}

static void batches_of_store(fanread_store *store) {
  static uint8_t spelt[MANY][8];
  static fanread_bytes keys[MANY], values[MANY];
  fanread_buffer room = FANREAD_BUFFER_INIT;
  size_t hits;
  for (uint64_t i = 0; i < MANY; i++) keys[i] = bytes_of(spell(i, spelt[i]), 8);
  DONE(VALID(fanread_store_get_batch(store, keys, MANY, values, &room, &hits)));
  EXPECT(hits == MANY - 1 && values[2].data == NULL);
  EXPECT(values[1].data != NULL && values[1].len == 0);
  EXPECT(holds(values[MANY - 1].data, values[MANY - 1].len, "value 2999"));
  DONE(fanread_buffer_free(&room));
}

static void a_store_keeps_what_was_written(const fanread_store_options *options) {
  fanread_store *store;
  int32_t level;
  DONE(VALID(fanread_store_in_memory(options, &store)));
  use_store(store);
  DONE(VALID(fanread_store_durability(store, &level)));
  EXPECT(level == FANREAD_SURVIVES_NOTHING);
  DONE(VALID(fanread_store_free(store)));

  DONE(VALID(fanread_store_create(path, options, &store)));
  use_store(store);
  batches_of_store(store);
  DONE(fanread_store_durability(store, &level));
  EXPECT(level >= (options && options->checkpoints ? FANREAD_SURVIVES_CHECKPOINT
                                                   : FANREAD_SURVIVES_PROCESS));
  DONE(fanread_store_free(store));
  DONE(VALID(fanread_store_open(path, &store)));
  batches_of_store(store);
  DONE(fanread_store_check(store));
  DONE(fanread_store_free(store));
  remove(path);
}

static void use_u64_store(fanread_u64_store *store) {
  uint64_t value = 0, old = 0;
  size_t count;
  for (uint64_t i = 0; i < MANY; i++) DONE(VALID(fanread_u64_store_insert(store, i, i, NULL)));
  for (uint64_t i = 0; i < MANY; i++) {
    EXPECT(fanread_u64_store_insert(store, i, i * 2, &old) == FANREAD_REPLACED && old == i);
    DONE(VALID(fanread_u64_store_get(store, i, &value)));
    EXPECT(value == i * 2);
  }
  DONE(fanread_u64_store_get(store, 0, NULL));
  DONE(VALID(fanread_u64_store_remove(store, 7, &old)));
  EXPECT(old == 14 && fanread_u64_store_remove(store, 7, NULL) == FANREAD_NOT_FOUND);
  EXPECT(fanread_u64_store_get(store, 7, &value) == FANREAD_NOT_FOUND);
  DONE(VALID(fanread_u64_store_len(store, &count)));
  EXPECT(count == MANY - 1);
  DONE(VALID(fanread_u64_store_sync(store)));
  DONE(VALID(fanread_u64_store_check(store)));
  struct seen seen = {0, 0, 0, 1, {0}};
  DONE(VALID(fanread_u64_store_scan(store, see_u64, &seen)));
  EXPECT(seen.count == MANY - 1 && seen.sum == (uint64_t)MANY * (MANY - 1) / 2 - 7);
  struct seen stopped = {0, 5, 0, 1, {0}};
  DONE(fanread_u64_store_scan(store, see_u64, &stopped));
  EXPECT(stopped.count == 5);
  static uint64_t keys[MANY], values[MANY];
  static uint8_t found[MANY];
  for (uint64_t i = 0; i < MANY; i++) keys[i] = i;
  DONE(VALID(fanread_u64_store_get_batch(store, keys, MANY, values, found, &count)));
  EXPECT(count == MANY - 1 && found[7] == 0 && values[7] == 0);
  EXPECT(found[8] == 1 && values[8] == 16);
  DONE(fanread_u64_store_get_batch(store, keys, MANY, values, NULL, NULL));
}

static void a_u64_store_keeps_what_was_written(const fanread_store_options *options) {
  fanread_u64_store *store;
  int32_t level;
  uint64_t value;
  DONE(VALID(fanread_u64_store_in_memory(options, &store)));
  EXPECT(fanread_u64_store_scan(store, see_u64, NULL) == FANREAD_NOT_FOUND);
  use_u64_store(store);
  DONE(VALID(fanread_u64_store_durability(store, &level)));
  EXPECT(level == FANREAD_SURVIVES_NOTHING);
  DONE(VALID(fanread_u64_store_free(store)));

  DONE(VALID(fanread_u64_store_create(path, options, &store)));
  use_u64_store(store);
  DONE(fanread_u64_store_free(store));
  DONE(VALID(fanread_u64_store_open(path, &store)));
  DONE(fanread_u64_store_get(store, 9, &value));
  EXPECT(value == 18);
  DONE(fanread_u64_store_check(store));
  DONE(fanread_u64_store_free(store));
  remove(path);
}

int main(void) {
  remove(path);
  a_table_has_what_was_built(NULL);
  fanread_table_options table = {0};
  a_table_has_what_was_built(&table);
  table.hash_ratio = 0.7;
  table.memory_limit = 1000;
  table.search_depth = 50;
  table.block_buckets = 4;
  table.power_of_two = table.first_blocks = table.no_checksums = 1;
  a_table_has_what_was_built(&table);

  a_store_keeps_what_was_written(NULL);
  a_u64_store_keeps_what_was_written(NULL);
  fanread_store_options store = {0};
  store.segment_bytes = 1024;
  store.probed_buckets = 2;
  store.copy_on_write = store.small_pages = store.has_seed = 1;
  store.seed = 42;
  a_store_keeps_what_was_written(&store);
  a_u64_store_keeps_what_was_written(&store);
  store.checkpoints = 1;
  a_store_keeps_what_was_written(&store);
  puts("files: ok");
  return 0;
}
