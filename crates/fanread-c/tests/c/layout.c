/* What programs were compiled with: sizes, places and numbers, as docs/formats/c-abi.md has them. */
#include "check.h"

#define AT(type, field, at) EXPECT(offsetof(type, field) == (at))

int main(void) {
  EXPECT(sizeof(fanread_bytes) == 16);
  AT(fanread_bytes, len, 8);
  EXPECT(sizeof(fanread_buffer) == 24);
  AT(fanread_buffer, len, 8);
  AT(fanread_buffer, capacity, 16);
  EXPECT(sizeof(fanread_options) == 24);
  AT(fanread_options, has_seed, 4);
  AT(fanread_options, seed, 8);
  AT(fanread_options, capacity, 16);
  EXPECT(sizeof(fanread_memory) == 40);
  AT(fanread_memory, idle_bytes, 32);
  EXPECT(sizeof(fanread_table_options) == 40);
  AT(fanread_table_options, memory_limit, 8);
  AT(fanread_table_options, search_depth, 16);
  AT(fanread_table_options, no_checksums, 36);
  EXPECT(sizeof(fanread_table_stats) == 48);
  AT(fanread_table_stats, key_len, 8);
  AT(fanread_table_stats, buckets, 24);
  AT(fanread_table_stats, hashes, 32);
  AT(fanread_table_stats, file_bytes, 40);
  EXPECT(sizeof(fanread_store_options) == 40);
  AT(fanread_store_options, probed_buckets, 8);
  AT(fanread_store_options, checkpoints, 16);
  AT(fanread_store_options, has_seed, 28);
  AT(fanread_store_options, seed, 32);
  EXPECT(sizeof(fanread_status) == 4 && sizeof(fanread_kind) == 4);
  EXPECT(FANREAD_OK == 0 && FANREAD_REFUSED == 3 && FANREAD_NULL == -1 && FANREAD_PANIC == -16);
  EXPECT(FANREAD_ORDERED_MAP == 1 && FANREAD_SKIP_LIST == 6);
  EXPECT(FANREAD_U64_VALUES == 1 && FANREAD_BYTES_VALUES == 2);
  EXPECT(FANREAD_FIRST == 1 && FANREAD_AT_OR_ABOVE == 3 && FANREAD_BELOW == 6);
  EXPECT(FANREAD_SURVIVES_NOTHING == 0 && FANREAD_SURVIVES_POWER_CUT == 3);
  puts("layout: ok");
  return 0;
}
