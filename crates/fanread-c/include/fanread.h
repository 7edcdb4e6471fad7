/* fanread: indexes that keep many memory reads in flight at once.
 *
 *   fanread_map *map;
 *   uint64_t value;
 *   if (fanread_map_new_named("ordered-map", FANREAD_U64_VALUES, NULL, &map) != FANREAD_OK)
 *     fail(fanread_last_error());
 *   fanread_map_insert(map, "kiwi", 4, 3, NULL);
 *   if (fanread_map_get(map, "kiwi", 4, &value) == FANREAD_OK)
 *     use(value);
 *   fanread_map_free(map);
 *
 * Every call returns a status: 0 or more says what happened, a negative one that nothing did, and why (but see
 * FANREAD_OUT_OF_MEMORY and FANREAD_PANIC); fanread_last_error() has the details. A NULL that is not allowed, a handle of another type, a key or value of the
 * wrong form are such statuses. What cannot be checked is the caller's part: that a handle was not freed,
 * that pointers are to what they are for, that arrays are as long as said and outputs overlap nothing else.
 *
 * What a call is given it copies. What it returns is the caller's, or is valid as long as its comment says.
 * No exception and no panic leaves a call.
 *
 * This file is generated from the library's sources. */

#ifndef FANREAD_H
#define FANREAD_H

#include <stddef.h>
#include <stdint.h>

/** A buffer before its first use. */
#define FANREAD_BUFFER_INIT {NULL, 0, 0}

/**
 * What a call did, if 0 or more; why it did nothing, if negative. Of two errors the map may have changed all the same:
 * see `FANREAD_OUT_OF_MEMORY` and `FANREAD_PANIC`.
 */
typedef enum {
  /**
   * Done: the key was there, or the entry is new, or there was nothing to tell.
   */
  FANREAD_OK = 0,
  /**
   * No such key, or no further entry. Outputs are as they were, unless the function says otherwise.
   */
  FANREAD_NOT_FOUND = 1,
  /**
   * Done, and the key had a value, which was replaced.
   */
  FANREAD_REPLACED = 2,
  /**
   * Not done: the key has another value than the one expected, or has one where none is expected.
   */
  FANREAD_REFUSED = 3,
  /**
   * A pointer is NULL that must not be.
   */
  FANREAD_NULL = -1,
  /**
   * A handle is of another type, or was freed; or a guard is of another thread.
   */
  FANREAD_HANDLE = -2,
  /**
   * An argument is none of those that are possible: a length, a misaligned array, a buffer that
   * was not initialised.
   */
  FANREAD_ARGUMENT = -3,
  /**
   * There is no kind of map, or of values, of that number or name.
   */
  FANREAD_UNKNOWN_KIND = -4,
  /**
   * A key has not 8 bytes, and the map, or the function, is for those of 8 bytes alone; or, in a
   * table, not the length of the others.
   */
  FANREAD_KEY_LENGTH = -5,
  /**
   * A key, or a value, is longer than the map takes.
   */
  FANREAD_TOO_LONG = -6,
  /**
   * The function is for values of the other kind than the map's.
   */
  FANREAD_VALUE_KIND = -7,
  /**
   * Keys that must ascend do not.
   */
  FANREAD_NOT_ASCENDING = -8,
  /**
   * The cursor is not at an entry.
   */
  FANREAD_NO_ENTRY = -9,
  /**
   * There is no memory, or the map is as large as its kind can be. If the memory was for a value that is handed back, what
   * the call is for has taken place; pass NULL where a replaced value is not wanted. Of a batch, entries before it are in.
   */
  FANREAD_OUT_OF_MEMORY = -10,
  /**
   * The system refused something, such as to open a file.
   */
  FANREAD_IO = -11,
  /**
   * The file is open already, here or in another process.
   */
  FANREAD_BUSY = -12,
  /**
   * The file is not of this kind, or is damaged.
   */
  FANREAD_DAMAGED = -13,
  /**
   * Too many keys have nearly the same hash.
   */
  FANREAD_CROWDED = -14,
  /**
   * The entries make no table: there are none, or a key is there twice, or lengths differ.
   */
  FANREAD_NO_TABLE = -15,
  /**
   * The call was given up where it stood, and what it was to change may be changed or not: a defect of the library; or there
   * is no memory, in a call that does not name `FANREAD_OUT_OF_MEMORY` among its errors.
   */
  FANREAD_PANIC = -16,
} fanread_status;

/**
 * The kinds of maps. `README.md` of the project says which to take: the first for byte strings,
 * the second for numbers.
 */
typedef enum {
  /**
   * "ordered-map": byte strings; the one to take unless another is better.
   */
  FANREAD_ORDERED_MAP = 1,
  /**
   * "u64-map": keys of 8 bytes, or numbers; the one to take for these.
   */
  FANREAD_U64_MAP = 2,
  /**
   * "wormhole": byte strings, short ones in the least memory.
   */
  FANREAD_WORMHOLE = 3,
  /**
   * "cuckoo-trie": byte strings.
   */
  FANREAD_CUCKOO_TRIE = 4,
  /**
   * "mlp-index": keys of 8 bytes, or numbers.
   */
  FANREAD_MLP_INDEX = 5,
  /**
   * "skip-list": byte strings of any length.
   */
  FANREAD_SKIP_LIST = 6,
} fanread_kind;

/**
 * What a map keeps as values.
 */
typedef enum {
  /**
   * Numbers, which lie where the lookup already is. Functions without `_bytes` at the end of
   * their name are for these.
   */
  FANREAD_U64_VALUES = 1,
  /**
   * Byte strings of any length. Functions with `_bytes` at the end of their name are for these. In an ordered map they lie
   * behind their keys, up to 1 KB; in maps of other kinds a lookup waits twice more for one.
   */
  FANREAD_BYTES_VALUES = 2,
} fanread_values;

/**
 * Where an entry is looked for: at an end of the map, or next to a key.
 */
typedef enum {
  /**
   * The entry with the smallest key. The key given is not looked at.
   */
  FANREAD_FIRST = 1,
  /**
   * The entry with the largest key. The key given is not looked at.
   */
  FANREAD_LAST = 2,
  /**
   * The first entry whose key is the one given or above it: the lower bound.
   */
  FANREAD_AT_OR_ABOVE = 3,
  /**
   * The first entry whose key is above the one given.
   */
  FANREAD_ABOVE = 4,
  /**
   * The last entry whose key is the one given or below it: the upper bound.
   */
  FANREAD_AT_OR_BELOW = 5,
  /**
   * The last entry whose key is below the one given.
   */
  FANREAD_BELOW = 6,
} fanread_place;

/**
 * What the contents of a store survive; each level includes those before it.
 */
typedef enum {
  /**
   * Nothing: they are memory of the process.
   */
  FANREAD_SURVIVES_NOTHING = 0,
  /**
   * The end of the process, whatever ends it.
   */
  FANREAD_SURVIVES_PROCESS = 1,
  /**
   * That, and of a power cut what the last checkpoint has.
   */
  FANREAD_SURVIVES_CHECKPOINT = 2,
  /**
   * That, and of a power cut all that a call had returned.
   */
  FANREAD_SURVIVES_POWER_CUT = 3,
} fanread_durability;

/**
 * A place in a map's order: before the first entry, at one, or behind the last. One thread at a time may use it.
 */
typedef struct fanread_cursor fanread_cursor;

/**
 * Keeps its thread pinned: memory that any map of the process gives up meanwhile is not used again, and calls of the thread
 * on maps need not see to it one by one. Of one thread, which alone may use it.
 */
typedef struct fanread_guard fanread_guard;

/**
 * A map. Any number of threads may use it at once, through all functions but `fanread_map_free`.
 */
typedef struct fanread_map fanread_map;

/**
 * A hash map of byte strings to byte strings in a file, or in memory, that a crash leaves whole.
 * Any number of threads may use it at once, through all functions but `fanread_store_free`.
 *
 * A store in a file is that of the process which opened it. In one that was forked from it, it may be freed, and read as long
 * as the parent does not write: insertions and `fanread_store_sync` return `FANREAD_IO` there, removals `FANREAD_PANIC`, and
 * nothing is changed.
 */
typedef struct fanread_store fanread_store;

/**
 * A table that was read from a file, or mapped. It never changes, so any number of threads may use it.
 */
typedef struct fanread_table fanread_table;

/**
 * Entries of a table that is to be built: keys of one length, and values of one length. One thread
 * at a time may use it.
 */
typedef struct fanread_table_builder fanread_table_builder;

/**
 * A hash map of numbers to numbers in a file, or in memory, that a crash leaves whole. Any number
 * of threads may use it at once, through all functions but `fanread_u64_store_free`. In a process that
 * was forked from the one that opened its file the same holds as for `fanread_store`.
 */
typedef struct fanread_u64_store fanread_u64_store;

/**
 * Room for byte strings that calls return. Set all of it to zero before its first use
 * (`FANREAD_BUFFER_INIT`), hand it to as many calls as you like, one at a time, and give it to
 * `fanread_buffer_free` at last. Each call replaces what is in it, and makes it larger where it
 * must. Read it; do not write to its fields.
 */
typedef struct {
  /**
   * The bytes. NULL if the buffer never held any.
   */
  uint8_t *data;
  /**
   * How many there are.
   */
  size_t len;
  /**
   * For how many there is room.
   */
  size_t capacity;
} fanread_buffer;

/**
 * How a map is made. All zero is as good as none.
 */
typedef struct {
  /**
   * How many prefix lengths a search of an ordered map, wormhole or cuckoo trie probes at once;
   * 0 for what suits current machines.
   */
  uint32_t probe_width;
  /**
   * Not 0: `seed` is the seed of the map's hash function, so that two runs lay out memory alike.
   * Whoever knows it can prepare keys that collide. 0: the seed is random.
   */
  uint32_t has_seed;
  /**
   * See above.
   */
  uint64_t seed;
  /**
   * For how many entries a u64 map or ordered map has room made by its first insertion, so that
   * later ones copy no part of it; other kinds take no notice. 0: it grows from the beginning.
   */
  uint64_t capacity;
} fanread_options;

/**
 * What a map takes in memory, in bytes.
 */
typedef struct {
  /**
   * All of it.
   */
  uint64_t total_bytes;
  /**
   * Keys or references to them, and their order.
   */
  uint64_t leaf_bytes;
  /**
   * Keys and values that are elsewhere.
   */
  uint64_t record_bytes;
  /**
   * The table by which they are found.
   */
  uint64_t table_bytes;
  /**
   * Bytes of these that hold nothing now and will be used again.
   */
  uint64_t idle_bytes;
} fanread_memory;

/**
 * A byte string of somebody else: `len` bytes from `data` on, of any contents. `data` may be NULL
 * if `len` is 0; in answers it is NULL where there is no byte string, and only there.
 */
typedef struct {
  /**
   * The first byte.
   */
  const uint8_t *data;
  /**
   * How many there are.
   */
  size_t len;
} fanread_bytes;

/**
 * As `fanread_visit`, for a key of bytes with a number.
 */
typedef int32_t (*fanread_number_visit)(void *context, fanread_bytes key, uint64_t value);

/**
 * Takes an entry of a scan. What the byte strings point to is valid during the call. 0 goes on,
 * anything else ends the scan. It must return: no exception and no `longjmp` may leave it.
 */
typedef int32_t (*fanread_visit)(void *context, fanread_bytes key, fanread_bytes value);

/**
 * Takes an entry of a store of numbers. 0 goes on, anything else ends the walk. It must return: no
 * exception and no `longjmp` may leave it.
 */
typedef int32_t (*fanread_u64_visit)(void *context, uint64_t key, uint64_t value);

/**
 * As `fanread_visit`, for a key that is a number with bytes.
 */
typedef int32_t (*fanread_u64_bytes_visit)(void *context, uint64_t key, fanread_bytes value);

/**
 * Takes entries of a scan: `count` keys, which is not 0, and the values at the same places. What they point to, and the arrays, are valid
 * during the call. 0 goes on, anything else ends the scan. It must return: no exception and no `longjmp` may leave it.
 */
typedef int32_t (*fanread_chunk_visit)(void *context,
                                       const fanread_bytes *keys,
                                       const uint64_t *values,
                                       size_t count);

/**
 * As `fanread_chunk_visit`, for keys that are numbers.
 */
typedef int32_t (*fanread_u64_chunk_visit)(void *context,
                                           const uint64_t *keys,
                                           const uint64_t *values,
                                           size_t count);

/**
 * How a table is built. All zero is what the format has by default.
 */
typedef struct {
  /**
   * Which part of the buckets is used, at most; 0 for 0.9.
   */
  double hash_ratio;
  /**
   * How many bytes of entries are kept in memory before they go to a temporary file; 0 for 1 GiB.
   */
  size_t memory_limit;
  /**
   * How many entries may be moved to make room for one; 0 for 100.
   */
  uint32_t search_depth;
  /**
   * How many buckets are in a block; 0 for 5.
   */
  uint32_t block_buckets;
  /**
   * Not 0: the first eight bytes of a key are its first hash; for keys that are random numbers.
   */
  uint32_t identity_first;
  /**
   * Not 0: the number of buckets is a power of two.
   */
  uint32_t power_of_two;
  /**
   * Not 0: as many keys as possible are in their first block, rather than where `RocksDB` would put them.
   */
  uint32_t first_blocks;
  /**
   * Not 0: the file has no checksums.
   */
  uint32_t no_checksums;
} fanread_table_options;

/**
 * What a table tells about itself.
 */
typedef struct {
  /**
   * How many entries there are.
   */
  uint64_t entries;
  /**
   * The length of every key.
   */
  size_t key_len;
  /**
   * The length of every value.
   */
  size_t value_len;
  /**
   * How many buckets there are.
   */
  uint64_t buckets;
  /**
   * With how many hash functions keys are found.
   */
  uint32_t hashes;
  /**
   * How long the file is.
   */
  uint64_t file_bytes;
} fanread_table_stats;

/**
 * How a store is made. All zero is what suits most.
 */
typedef struct {
  /**
   * Bytes of a segment: a power of two from 256 to 4194304; 0 for 16384.
   */
  size_t segment_bytes;
  /**
   * In how many neighbouring buckets of 64 bytes a key may be, at most as many as a segment has, and 65535; 0 for 4.
   */
  size_t probed_buckets;
  /**
   * Not 0: the file has checkpoints, so that a power cut leaves the store as it was at the last
   * completed `sync`, or at the end of its use. A second and a third file beside it are needed
   * for that.
   */
  uint32_t checkpoints;
  /**
   * Not 0: a segment is split into two new ones rather than in place.
   */
  uint32_t copy_on_write;
  /**
   * Not 0: memory of a store without a file is not asked for in huge pages.
   */
  uint32_t small_pages;
  /**
   * Not 0: `seed` is the hash key, so that the same calls make the same file. 0: it is random.
   */
  uint32_t has_seed;
  /**
   * See above.
   */
  uint64_t seed;
} fanread_store_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the message of this thread's last call that returned a negative status; an empty string if there was none.
 *
 * Ownership: the library's. The string is valid until the next call of this thread that fails, or the thread's end.
 * Threads: any; each has a message of its own.
 */
const char *fanread_last_error(void);

/**
 * Returns what a status means, in a few words; for a number that is none, it says so.
 *
 * Ownership: the library's, for ever. Threads: any.
 */
const char *fanread_status_message(int32_t status);

/**
 * Returns the version of the library that is running, such as "0.1.0".
 *
 * Ownership: the library's, for ever. Threads: any.
 */
const char *fanread_version(void);

/**
 * Frees what a buffer holds and makes it empty; it may be used again. NULL is nothing to free.
 *
 * Threads: any, one at a time.
 */
fanread_status fanread_buffer_free(fanread_buffer *used);

/**
 * Makes an empty map, which takes no memory but the handle's.
 *
 * `kind` is one of `fanread_kind`, `values` one of `fanread_values`; `options` may be NULL.
 *
 * Errors: `FANREAD_UNKNOWN_KIND`. `*map` is NULL then.
 * Ownership: the caller frees the map by `fanread_map_free`. Threads: any.
 */
fanread_status fanread_map_new(int32_t kind,
                               int32_t values,
                               const fanread_options *options,
                               fanread_map **map);

/**
 * Makes an empty map of the kind of a name, such as "ordered-map"; otherwise as `fanread_map_new`.
 */
fanread_status fanread_map_new_named(const char *kind,
                                     int32_t values,
                                     const fanread_options *options,
                                     fanread_map **map);

/**
 * Frees a map. NULL is nothing to free. Cursors stay, and keep the memory until they are freed too.
 *
 * Errors: `FANREAD_HANDLE` also if it is a map of a guard, which frees it.
 * Threads: one, while no other uses the map.
 */
fanread_status fanread_map_free(fanread_map *map);

/**
 * Stores which kind a map is, one of `fanread_kind`, and what its values are, one of `fanread_values`.
 *
 * `kind` and `values` may be NULL. Threads: any.
 */
fanread_status fanread_map_kind(const fanread_map *map,
                                int32_t *kind,
                                int32_t *values);

/**
 * Stores which kind has a name, such as "ordered-map".
 *
 * Errors: `FANREAD_UNKNOWN_KIND`. Threads: any.
 */
fanread_status fanread_kind_of_name(const char *name, int32_t *kind);

/**
 * Returns the name of a kind, such as "ordered-map"; NULL if there is no such kind.
 *
 * Ownership: the library's, for ever. Threads: any.
 */
const char *fanread_kind_name(int32_t kind);

/**
 * Stores how many entries a map has. Exact when nobody writes meanwhile.
 *
 * Threads: any.
 */
fanread_status fanread_map_len(const fanread_map *map, size_t *len);

/**
 * Removes all entries, one by one. An entry that another thread inserts meanwhile may stay.
 *
 * Threads: any.
 */
fanread_status fanread_map_clear(const fanread_map *map);

/**
 * Stores what a map takes in memory.
 *
 * Threads: any.
 */
fanread_status fanread_map_memory_usage(const fanread_map *map, fanread_memory *usage);

/**
 * Stores how many bytes of the whole process are on huge pages; `UINT64_MAX` if the system does not say. The kernel walks all page
 * tables of the process for it: some 50 ms for each GB that lies on small pages.
 *
 * Threads: any.
 */
fanread_status fanread_process_huge_page_bytes(uint64_t *bytes);

/**
 * Stores the value of a key in `*value`; NULL if nobody wants it.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes.
 * Threads: any.
 */
fanread_status fanread_map_get(const fanread_map *map,
                               const void *key,
                               size_t key_len,
                               uint64_t *value);

/**
 * Tells whether a map has a key.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
 * Errors: `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
 * Threads: any.
 */
fanread_status fanread_map_contains(const fanread_map *map, const void *key, size_t key_len);

/**
 * Maps a key to `value`, whether it had a value or not. The value that is replaced goes to `*old`,
 * unless it is NULL.
 *
 * Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes,
 * `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_insert(const fanread_map *map,
                                  const void *key,
                                  size_t key_len,
                                  uint64_t value,
                                  uint64_t *old);

/**
 * Removes a key. The value that it had goes to `*old`, unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes.
 * Threads: any.
 */
fanread_status fanread_map_remove(const fanread_map *map,
                                  const void *key,
                                  size_t key_len,
                                  uint64_t *old);

/**
 * Maps a key to `value` if it has a value already, which goes to `*old`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`, or `FANREAD_NOT_FOUND` if there is no such key, which is not inserted then.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes.
 * Ownership: the map keeps a copy. Threads: any.
 */
fanread_status fanread_map_replace(const fanread_map *map,
                                   const void *key,
                                   size_t key_len,
                                   uint64_t value,
                                   uint64_t *old);

/**
 * Maps a key to `value` unless it has a value. The value that it has then goes to `*there`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the value is the new one, `FANREAD_REFUSED` if the key had one.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_get_or_insert(const fanread_map *map,
                                         const void *key,
                                         size_t key_len,
                                         uint64_t value,
                                         uint64_t *there);

/**
 * Maps a key to `desired` if its value is `expected`. The value that it had goes to `*found`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`; `FANREAD_REFUSED` if the key has another value; `FANREAD_NOT_FOUND` if it has none.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes.
 * Ownership: the map keeps a copy. Threads: any.
 */
fanread_status fanread_map_compare_exchange(const fanread_map *map,
                                            const void *key,
                                            size_t key_len,
                                            uint64_t expected,
                                            uint64_t desired,
                                            uint64_t *found);

/**
 * Finds the entry at a place, one of `fanread_place`: its key goes to the buffer `found_key`, its
 * value to `*value`, each unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry.
 * Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_VALUE_KIND` if the values are
 * byte strings, `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
 * Ownership: buffers are the caller's. Threads: any.
 */
fanread_status fanread_map_find(const fanread_map *map,
                                int32_t place,
                                const void *key,
                                size_t key_len,
                                fanread_buffer *found_key,
                                uint64_t *value);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls.
 * `values[i]` gets the value of key `i`, or 0, and `found[i]` 1 or 0, unless it is NULL.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes.
 * Ownership: arrays are the caller's, of `count` items each. Threads: any.
 */
fanread_status fanread_map_get_batch(const fanread_map *map,
                                     const fanread_bytes *keys,
                                     size_t count,
                                     uint64_t *values,
                                     uint8_t *found,
                                     size_t *hits);

/**
 * Tells of many keys at once whether the map has them: `found[i]` gets 1 or 0.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Errors: `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
 * Ownership: arrays are the caller's, of `count` items each. Threads: any.
 */
fanread_status fanread_map_contains_batch(const fanread_map *map,
                                          const fanread_bytes *keys,
                                          size_t count,
                                          uint8_t *found,
                                          size_t *hits);

/**
 * Maps each of many keys to the value at the same place of `values`, in their order; later ones
 * win. Faster than as many single calls.
 *
 * Returns `FANREAD_OK`. A key that the map does not take is found before the first is inserted;
 * if there is no memory, those before it are in.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is
 * on numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes,
 * `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_insert_batch(const fanread_map *map,
                                        const fanread_bytes *keys,
                                        const uint64_t *values,
                                        size_t count);

/**
 * Makes a map of a kind, one of `fanread_kind`, with entries whose keys ascend. Several times
 * faster than insertions.
 *
 * Errors: `FANREAD_UNKNOWN_KIND`, `FANREAD_NOT_ASCENDING`, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes,
 * `FANREAD_OUT_OF_MEMORY`. `*map` is NULL then.
 * Ownership: the map keeps copies; the caller frees it by `fanread_map_free`. Threads: any.
 */
fanread_status fanread_map_from_sorted(int32_t kind,
                                       const fanread_bytes *keys,
                                       const uint64_t *values,
                                       size_t count,
                                       fanread_map **map);

/**
 * Stores the value of a key in the buffer `value`; NULL if nobody wants it.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes.
 * Ownership: the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_get_bytes(const fanread_map *map,
                                     const void *key,
                                     size_t key_len,
                                     fanread_buffer *value);

/**
 * Maps a key to `value_len` bytes from `value` on, whether it had a value or not. The value that
 * is replaced goes to the buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes,
 * `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_insert_bytes(const fanread_map *map,
                                        const void *key,
                                        size_t key_len,
                                        const void *value,
                                        size_t value_len,
                                        fanread_buffer *old);

/**
 * Removes a key. The value that it had goes to the buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes.
 * Ownership: the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_remove_bytes(const fanread_map *map,
                                        const void *key,
                                        size_t key_len,
                                        fanread_buffer *old);

/**
 * Maps a key to `value_len` bytes from `value` on if it has a value already, which goes to the
 * buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`, or `FANREAD_NOT_FOUND` if there is no such key, which is not inserted then.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes.
 * Ownership: the map keeps a copy; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_replace_bytes(const fanread_map *map,
                                         const void *key,
                                         size_t key_len,
                                         const void *value,
                                         size_t value_len,
                                         fanread_buffer *old);

/**
 * Maps a key to `value_len` bytes from `value` on unless it has a value. The value that it has
 * then goes to the buffer `there`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the value is the new one, `FANREAD_REFUSED` if the key had one.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes.
 * Ownership: the map keeps copies; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_get_or_insert_bytes(const fanread_map *map,
                                               const void *key,
                                               size_t key_len,
                                               const void *value,
                                               size_t value_len,
                                               fanread_buffer *there);

/**
 * Maps a key to `desired` if its value is `expected`. The value that it had goes to the buffer
 * `found`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`; `FANREAD_REFUSED` if the key has another value; `FANREAD_NOT_FOUND` if it has none.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes.
 * Ownership: the map keeps a copy; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_compare_exchange_bytes(const fanread_map *map,
                                                  const void *key,
                                                  size_t key_len,
                                                  const void *expected,
                                                  size_t expected_len,
                                                  const void *desired,
                                                  size_t desired_len,
                                                  fanread_buffer *found);

/**
 * Finds the entry at a place, one of `fanread_place`: its key goes to the buffer `found_key`, its
 * value to the buffer `value`, each unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry.
 * Errors: `FANREAD_ARGUMENT` if there is no such place, or if both buffers are one,
 * `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on numbers
 * and the key has not 8 bytes.
 * Ownership: buffers are the caller's. Threads: any.
 */
fanread_status fanread_map_find_bytes(const fanread_map *map,
                                      int32_t place,
                                      const void *key,
                                      size_t key_len,
                                      fanread_buffer *found_key,
                                      fanread_buffer *value);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls. The
 * bytes of all values found go to the buffer `room`, and `values[i]` says where in it the value of
 * key `i` is; its `data` is NULL if there is none.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes.
 * A call that fails writes nothing to `values`, and may leave the buffer empty.
 * Ownership: arrays and buffer are the caller's. What `values` point to is valid until the buffer
 * is used again. Threads: any.
 */
fanread_status fanread_map_get_batch_bytes(const fanread_map *map,
                                           const fanread_bytes *keys,
                                           size_t count,
                                           fanread_bytes *values,
                                           fanread_buffer *room,
                                           size_t *hits);

/**
 * Maps each of many keys to the value at the same place of `values`, in their order; later ones
 * win. Faster than as many single calls.
 *
 * Returns `FANREAD_OK`. A key that the map does not take is found before the first is inserted;
 * if there is no memory, those before it are in.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes,
 * `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_insert_batch_bytes(const fanread_map *map,
                                              const fanread_bytes *keys,
                                              const fanread_bytes *values,
                                              size_t count);

/**
 * Makes a map of a kind, one of `fanread_kind`, with entries whose keys ascend. Several times
 * faster than insertions.
 *
 * Errors: `FANREAD_UNKNOWN_KIND`, `FANREAD_NOT_ASCENDING`, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes, `FANREAD_TOO_LONG` for keys of more than 65535 bytes,
 * `FANREAD_OUT_OF_MEMORY`. `*map` is NULL then.
 * Ownership: the map keeps copies; the caller frees it by `fanread_map_free`. Threads: any.
 */
fanread_status fanread_map_from_sorted_bytes(int32_t kind,
                                             const fanread_bytes *keys,
                                             const fanread_bytes *values,
                                             size_t count,
                                             fanread_map **map);

/**
 * Stores the value of a key in `*value`; NULL if nobody wants it.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
 * Threads: any.
 */
fanread_status fanread_map_u64_get(const fanread_map *map, uint64_t key, uint64_t *value);

/**
 * Tells whether a map has a key.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
 * Threads: any.
 */
fanread_status fanread_map_u64_contains(const fanread_map *map, uint64_t key);

/**
 * Maps a key to `value`, whether it had a value or not. The value that is replaced goes to `*old`,
 * unless it is NULL.
 *
 * Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_u64_insert(const fanread_map *map,
                                      uint64_t key,
                                      uint64_t value,
                                      uint64_t *old);

/**
 * Removes a key. The value that it had goes to `*old`, unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
 * Threads: any.
 */
fanread_status fanread_map_u64_remove(const fanread_map *map, uint64_t key, uint64_t *old);

/**
 * Maps a key to `value` if it has a value already, which goes to `*old`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`, or `FANREAD_NOT_FOUND` if there is no such key, which is not inserted then.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
 * Ownership: the map keeps a copy. Threads: any.
 */
fanread_status fanread_map_u64_replace(const fanread_map *map,
                                       uint64_t key,
                                       uint64_t value,
                                       uint64_t *old);

/**
 * Maps a key to `value` unless it has a value. The value that it has then goes to `*there`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the value is the new one, `FANREAD_REFUSED` if the key had one.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_u64_get_or_insert(const fanread_map *map,
                                             uint64_t key,
                                             uint64_t value,
                                             uint64_t *there);

/**
 * Maps a key to `desired` if its value is `expected`. The value that it had goes to `*found`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`; `FANREAD_REFUSED` if the key has another value; `FANREAD_NOT_FOUND` if it has none.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
 * Ownership: the map keeps a copy. Threads: any.
 */
fanread_status fanread_map_u64_compare_exchange(const fanread_map *map,
                                                uint64_t key,
                                                uint64_t expected,
                                                uint64_t desired,
                                                uint64_t *found);

/**
 * Finds the entry at a place, one of `fanread_place`: its key goes to `*found_key`, its value to
 * `*value`, each unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry.
 * Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_VALUE_KIND` if the values are
 * byte strings, `FANREAD_KEY_LENGTH` if the key found has not 8 bytes.
 * Threads: any.
 */
fanread_status fanread_map_u64_find(const fanread_map *map,
                                    int32_t place,
                                    uint64_t key,
                                    uint64_t *found_key,
                                    uint64_t *value);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls.
 * `values[i]` gets the value of key `i`, or 0, and `found[i]` 1 or 0, unless it is NULL.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings.
 * Ownership: arrays are the caller's, of `count` items each. Threads: any.
 */
fanread_status fanread_map_u64_get_batch(const fanread_map *map,
                                         const uint64_t *keys,
                                         size_t count,
                                         uint64_t *values,
                                         uint8_t *found,
                                         size_t *hits);

/**
 * Tells of many keys at once whether the map has them: `found[i]` gets 1 or 0.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Ownership: arrays are the caller's, of `count` items each. Threads: any.
 */
fanread_status fanread_map_u64_contains_batch(const fanread_map *map,
                                              const uint64_t *keys,
                                              size_t count,
                                              uint8_t *found,
                                              size_t *hits);

/**
 * Maps each of many keys to the value at the same place of `values`, in their order; later ones
 * win. Faster than as many single calls.
 *
 * Returns `FANREAD_OK`. A key that the map does not take is found before the first is inserted;
 * if there is no memory, those before it are in.
 * Errors: `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_u64_insert_batch(const fanread_map *map,
                                            const uint64_t *keys,
                                            const uint64_t *values,
                                            size_t count);

/**
 * Makes a map of a kind, one of `fanread_kind`, with entries whose keys ascend. Several times
 * faster than insertions.
 *
 * Errors: `FANREAD_UNKNOWN_KIND`, `FANREAD_NOT_ASCENDING`, `FANREAD_OUT_OF_MEMORY`. `*map` is NULL then.
 * Ownership: the map keeps copies; the caller frees it by `fanread_map_free`. Threads: any.
 */
fanread_status fanread_map_u64_from_sorted(int32_t kind,
                                           const uint64_t *keys,
                                           const uint64_t *values,
                                           size_t count,
                                           fanread_map **map);

/**
 * Stores the value of a key in the buffer `value`; NULL if nobody wants it.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers.
 * Ownership: the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_u64_get_bytes(const fanread_map *map,
                                         uint64_t key,
                                         fanread_buffer *value);

/**
 * Maps a key to `value_len` bytes from `value` on, whether it had a value or not. The value that
 * is replaced goes to the buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_u64_insert_bytes(const fanread_map *map,
                                            uint64_t key,
                                            const void *value,
                                            size_t value_len,
                                            fanread_buffer *old);

/**
 * Removes a key. The value that it had goes to the buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers.
 * Ownership: the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_u64_remove_bytes(const fanread_map *map,
                                            uint64_t key,
                                            fanread_buffer *old);

/**
 * Maps a key to `value_len` bytes from `value` on if it has a value already, which goes to the
 * buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`, or `FANREAD_NOT_FOUND` if there is no such key, which is not inserted then.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers.
 * Ownership: the map keeps a copy; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_u64_replace_bytes(const fanread_map *map,
                                             uint64_t key,
                                             const void *value,
                                             size_t value_len,
                                             fanread_buffer *old);

/**
 * Maps a key to `value_len` bytes from `value` on unless it has a value. The value that it has
 * then goes to the buffer `there`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the value is the new one, `FANREAD_REFUSED` if the key had one.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers.
 * Ownership: the map keeps copies; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_u64_get_or_insert_bytes(const fanread_map *map,
                                                   uint64_t key,
                                                   const void *value,
                                                   size_t value_len,
                                                   fanread_buffer *there);

/**
 * Maps a key to `desired` if its value is `expected`. The value that it had goes to the buffer
 * `found`, unless it is NULL.
 *
 * Returns `FANREAD_REPLACED`; `FANREAD_REFUSED` if the key has another value; `FANREAD_NOT_FOUND` if it has none.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers.
 * Ownership: the map keeps a copy; the buffer is the caller's. Threads: any.
 */
fanread_status fanread_map_u64_compare_exchange_bytes(const fanread_map *map,
                                                      uint64_t key,
                                                      const void *expected,
                                                      size_t expected_len,
                                                      const void *desired,
                                                      size_t desired_len,
                                                      fanread_buffer *found);

/**
 * Finds the entry at a place, one of `fanread_place`: its key goes to `*found_key`, its value to
 * the buffer `value`, each unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry.
 * Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_VALUE_KIND` if the values are
 * numbers, `FANREAD_KEY_LENGTH` if the key found has not 8 bytes.
 * Ownership: buffers are the caller's. Threads: any.
 */
fanread_status fanread_map_u64_find_bytes(const fanread_map *map,
                                          int32_t place,
                                          uint64_t key,
                                          uint64_t *found_key,
                                          fanread_buffer *value);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls. The
 * bytes of all values found go to the buffer `room`, and `values[i]` says where in it the value of
 * key `i` is; its `data` is NULL if there is none.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers.
 * A call that fails writes nothing to `values`, and may leave the buffer empty.
 * Ownership: arrays and buffer are the caller's. What `values` point to is valid until the buffer
 * is used again. Threads: any.
 */
fanread_status fanread_map_u64_get_batch_bytes(const fanread_map *map,
                                               const uint64_t *keys,
                                               size_t count,
                                               fanread_bytes *values,
                                               fanread_buffer *room,
                                               size_t *hits);

/**
 * Maps each of many keys to the value at the same place of `values`, in their order; later ones
 * win. Faster than as many single calls.
 *
 * Returns `FANREAD_OK`. A key that the map does not take is found before the first is inserted;
 * if there is no memory, those before it are in.
 * Errors: `FANREAD_VALUE_KIND` if the values are numbers, `FANREAD_OUT_OF_MEMORY`.
 * Ownership: the map keeps copies. Threads: any.
 */
fanread_status fanread_map_u64_insert_batch_bytes(const fanread_map *map,
                                                  const uint64_t *keys,
                                                  const fanread_bytes *values,
                                                  size_t count);

/**
 * Makes a map of a kind, one of `fanread_kind`, with entries whose keys ascend. Several times
 * faster than insertions.
 *
 * Errors: `FANREAD_UNKNOWN_KIND`, `FANREAD_NOT_ASCENDING`, `FANREAD_OUT_OF_MEMORY`. `*map` is NULL then.
 * Ownership: the map keeps copies; the caller frees it by `fanread_map_free`. Threads: any.
 */
fanread_status fanread_map_u64_from_sorted_bytes(int32_t kind,
                                                 const uint64_t *keys,
                                                 const fanread_bytes *values,
                                                 size_t count,
                                                 fanread_map **map);

/**
 * Makes a cursor before the first entry of a map.
 *
 * Errors: see `fanread_status`; `*cursor` is NULL then.
 * Ownership: the caller frees the cursor by `fanread_cursor_free`; it keeps the map's entries,
 * even if the map is freed.
 * Threads: any.
 */
fanread_status fanread_cursor_new(const fanread_map *map, fanread_cursor **cursor);

/**
 * Frees a cursor. NULL is nothing to free.
 *
 * Threads: one, while no other uses the cursor.
 */
fanread_status fanread_cursor_free(fanread_cursor *cursor);

/**
 * Sets how many entries the cursor reads at a time: 1 to see each as it is, as many as a scan will
 * take to search once. 0 makes it choose by itself again.
 *
 * Threads: one at a time.
 */
fanread_status fanread_cursor_read_ahead(fanread_cursor *cursor, size_t entries);

/**
 * Moves a cursor to the entry at a place, one of `fanread_place`, next to a key of bytes.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such entry: the cursor is behind the last one then, or
 * before the first if it was to go to the last entry or below the key.
 * Errors: `FANREAD_ARGUMENT` if there is no such place, `FANREAD_KEY_LENGTH` if the map is on
 * numbers and the key has not 8 bytes; the cursor stays where it was. Threads: one at a time.
 */
fanread_status fanread_cursor_seek(fanread_cursor *cursor,
                                   int32_t place,
                                   const void *key,
                                   size_t key_len);

/**
 * Moves a cursor to the entry at a place, next to a key that is a number; otherwise as `fanread_cursor_seek`.
 */
fanread_status fanread_cursor_u64_seek(fanread_cursor *cursor,
                                       int32_t place,
                                       uint64_t key);

/**
 * Moves a cursor to the first entry. Returns as `fanread_cursor_seek`. Threads: one at a time.
 */
fanread_status fanread_cursor_seek_first(fanread_cursor *cursor);

/**
 * Moves a cursor to the last entry. Returns as `fanread_cursor_seek`. Threads: one at a time.
 */
fanread_status fanread_cursor_seek_last(fanread_cursor *cursor);

/**
 * Moves a cursor to the next entry, from before the first one to that.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` behind the last one, where it stays.
 * Keys ascend strictly from call to call. An entry that is in the map all the time is met; one
 * that comes or goes may be. Threads: one at a time.
 */
fanread_status fanread_cursor_next(fanread_cursor *cursor);

/**
 * Moves a cursor to the entry before, from behind the last one to that.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` before the first one, where it stays; otherwise as
 * `fanread_cursor_next`.
 */
fanread_status fanread_cursor_prev(fanread_cursor *cursor);

/**
 * Stores where the key of the cursor's entry is. A key that is a number has eight bytes, the highest first.
 *
 * Errors: `FANREAD_NO_ENTRY`.
 * Ownership: the cursor's. The bytes are valid until it moves or is freed. Threads: one at a time.
 */
fanread_status fanread_cursor_key(const fanread_cursor *cursor,
                                  fanread_bytes *key);

/**
 * Stores the key of the cursor's entry as a number.
 *
 * Errors: `FANREAD_NO_ENTRY`; `FANREAD_KEY_LENGTH` if it has not 8 bytes. Threads: one at a time.
 */
fanread_status fanread_cursor_u64_key(const fanread_cursor *cursor, uint64_t *key);

/**
 * Stores the value of the cursor's entry.
 *
 * Errors: `FANREAD_NO_ENTRY`; `FANREAD_VALUE_KIND` if the values are byte strings. Threads: one at a time.
 */
fanread_status fanread_cursor_value(const fanread_cursor *cursor,
                                    uint64_t *value);

/**
 * Stores where the value of the cursor's entry is.
 *
 * Errors: `FANREAD_NO_ENTRY`; `FANREAD_VALUE_KIND` if the values are numbers.
 * Ownership: the cursor's. The bytes are valid until it moves or is freed. Threads: one at a time.
 */
fanread_status fanread_cursor_value_bytes(const fanread_cursor *cursor, fanread_bytes *value);

/**
 * Calls `visit` with each entry from a place on, one of `fanread_place`: upwards from the first one or from those at or above the key, downwards
 * from the last one or from those at or below it. What the entries point to is valid during the call; `visit` may use the map.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no such entry. Keys come in strict order. An entry that is in
 * the map all the time is met; one that comes or goes may be.
 * Errors: `FANREAD_NULL` also if there is no `visit`; `FANREAD_ARGUMENT` if there is no such place;
 * `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
 * Threads: any. While it runs, memory that any map of the process gives up is not used again.
 */
fanread_status fanread_map_scan(const fanread_map *map,
                                int32_t place,
                                const void *key,
                                size_t key_len,
                                fanread_number_visit visit,
                                void *context);

/**
 * As `fanread_map_scan`, with keys of bytes and values of bytes.
 */
fanread_status fanread_map_scan_bytes(const fanread_map *map,
                                      int32_t place,
                                      const void *key,
                                      size_t key_len,
                                      fanread_visit visit,
                                      void *context);

/**
 * As `fanread_map_scan`, with keys that are numbers.
 * Errors: also `FANREAD_KEY_LENGTH` at a key that has not 8 bytes.
 */
fanread_status fanread_map_u64_scan(const fanread_map *map,
                                    int32_t place,
                                    uint64_t key,
                                    fanread_u64_visit visit,
                                    void *context);

/**
 * As `fanread_map_scan`, with keys that are numbers and values of bytes.
 * Errors: also `FANREAD_KEY_LENGTH` at a key that has not 8 bytes.
 */
fanread_status fanread_map_u64_scan_bytes(const fanread_map *map,
                                          int32_t place,
                                          uint64_t key,
                                          fanread_u64_bytes_visit visit,
                                          void *context);

/**
 * As `fanread_map_scan`, but `visit` is called with several entries at a time, which takes less for each, and with at most `limit` in all;
 * `SIZE_MAX` is all there are. Entries are read before `visit` has seen those in front of them, so say how many you want if you know.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no such entry, or `limit` is 0. Keys come in strict order. An entry that is in
 * the map all the time is met; one that comes or goes may be.
 * Errors: `FANREAD_NULL` also if there is no `visit`; `FANREAD_ARGUMENT` if there is no such place;
 * `FANREAD_VALUE_KIND` if the values are byte strings, `FANREAD_KEY_LENGTH` if the map is on numbers and the key has not 8 bytes.
 * Threads: any. While it runs, memory that any map of the process gives up is not used again.
 */
fanread_status fanread_map_scan_chunks(const fanread_map *map,
                                       int32_t place,
                                       const void *key,
                                       size_t key_len,
                                       size_t limit,
                                       fanread_chunk_visit visit,
                                       void *context);

/**
 * As `fanread_map_scan_chunks`, with keys that are numbers.
 * Errors: also `FANREAD_KEY_LENGTH` at a key that has not 8 bytes.
 */
fanread_status fanread_map_u64_scan_chunks(const fanread_map *map,
                                           int32_t place,
                                           uint64_t key,
                                           size_t limit,
                                           fanread_u64_chunk_visit visit,
                                           void *context);

/**
 * Pins this thread, until `fanread_unpin`. A call on a map pins it for as long as it takes, which is a good part of what a lookup or
 * insertion costs; a thread that makes many calls in a row can save that, for most in lookups by `fanread_guard_map`.
 *
 * Nobody waits for a thread that is pinned, but memory that maps give up is not used again as long as it is. So call
 * `fanread_repin` every few hundred calls, and let go of the guard before the thread waits, sleeps or ends: one that is never let go of
 * keeps such memory until the process ends. Pins may be nested, within a function of a scan too.
 *
 * Errors: see `fanread_status`; `*guard` is NULL then.
 * Ownership: this thread's, which lets go of it by `fanread_unpin`. What calls return is valid as long as their comments say, pinned or not.
 * Threads: any; the guard is for this one alone.
 */
fanread_status fanread_pin(fanread_guard **guard);

/**
 * Lets go of a guard's pins and takes them again: memory that was given up before can be used again. It takes as long as a few
 * pins, and does nothing if the thread has another pin, of another guard or of a scan that is under way.
 *
 * Errors: `FANREAD_HANDLE` also if the guard is of another thread.
 * Threads: the one that made the guard.
 */
fanread_status fanread_repin(fanread_guard *guard);

/**
 * Lets go of a guard's pins, and frees the guard with its maps. NULL is nothing to free. Guards of a thread may go in any order.
 *
 * Errors: `FANREAD_HANDLE` also if the guard is of another thread; it is not freed then.
 * Threads: the one that made the guard, even while it ends; no other uses a map of the guard then.
 */
fanread_status fanread_unpin(fanread_guard *guard);

/**
 * Makes another handle of a map, through which lookups of the guard's thread take the pin that it holds: the fastest ones, where many
 * lookups go on that do not wait for each other. Make it once, and give it to calls in the place of the map.
 *
 * It is the same map. All calls take the handle, but only `fanread_map_get`, `fanread_map_contains` and their batches, and those for
 * numbers and for values of bytes, are faster by it. Other threads may use it; they gain nothing.
 *
 * Errors: `FANREAD_HANDLE` also if the guard is of another thread; `*held` is NULL then.
 * Ownership: the guard's. The handle is valid until `fanread_unpin`, which frees it, and keeps the map's entries until then, even if
 * the map is freed. Threads: the one that made the guard.
 */
fanread_status fanread_guard_map(fanread_guard *guard,
                                 const fanread_map *map,
                                 const fanread_map **held);

/**
 * Makes a builder without entries. `options` may be NULL.
 *
 * Ownership: the caller frees it by `fanread_table_builder_free`. Threads: any.
 */
fanread_status fanread_table_builder_new(const fanread_table_options *options,
                                         fanread_table_builder **builder);

/**
 * Frees a builder. NULL is nothing to free.
 *
 * Threads: one, while no other uses the builder.
 */
fanread_status fanread_table_builder_free(fanread_table_builder *builder);

/**
 * Adds an entry. All keys must have the length of the first, and all values that of the first.
 *
 * Errors: `FANREAD_KEY_LENGTH`; `FANREAD_NO_TABLE` for a value of another length; `FANREAD_TOO_LONG`,
 * `FANREAD_OUT_OF_MEMORY`, `FANREAD_IO`. The builder is as it was then. A key that is there twice is found by
 * `fanread_table_builder_finish`.
 * Ownership: the builder keeps copies. Threads: one at a time.
 */
fanread_status fanread_table_builder_insert(fanread_table_builder *builder,
                                            const void *key,
                                            size_t key_len,
                                            const void *value,
                                            size_t value_len);

/**
 * Stores how many entries a builder has.
 *
 * Threads: one at a time.
 */
fanread_status fanread_table_builder_len(const fanread_table_builder *builder, size_t *len);

/**
 * Writes the table to a file, which is at `path` only when it is complete. The entries stay.
 *
 * Errors: `FANREAD_NO_TABLE` if there is no entry or a key is there twice; `FANREAD_ARGUMENT` for
 * options that cannot be; `FANREAD_OUT_OF_MEMORY`, `FANREAD_IO`. What was at `path` is still there
 * then. Threads: one at a time.
 */
fanread_status fanread_table_builder_finish(fanread_table_builder *builder, const char *path);

/**
 * Reads a table into memory. From then on it does not matter what becomes of the file.
 *
 * Errors: `FANREAD_IO`, `FANREAD_DAMAGED`, `FANREAD_OUT_OF_MEMORY`; `*table` is NULL then.
 * Ownership: the caller frees it by `fanread_table_free`. Threads: any.
 */
fanread_status fanread_table_open(const char *path, fanread_table **table);

/**
 * Frees a table. NULL is nothing to free.
 *
 * Threads: one, while no other uses the table or what it lent.
 */
fanread_status fanread_table_free(fanread_table *table);

/**
 * Stores what a table tells about itself.
 *
 * Threads: any.
 */
fanread_status fanread_table_get_stats(const fanread_table *table, fanread_table_stats *stats);

/**
 * Stores where the value of a key is. `value` may be NULL, to ask only whether there is one.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` also for a key of another length than the table's.
 * Ownership: the table's. The bytes are valid until it is freed. Threads: any.
 */
fanread_status fanread_table_get(const fanread_table *table,
                                 const void *key,
                                 size_t key_len,
                                 fanread_bytes *value);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls.
 * `values[i]` says where the value of key `i` is; its `data` is NULL if there is none.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Ownership: arrays are the caller's, of `count` items each; bytes are the table's, and valid
 * until it is freed. Threads: any.
 */
fanread_status fanread_table_get_batch(const fanread_table *table,
                                       const fanread_bytes *keys,
                                       size_t count,
                                       fanread_bytes *values,
                                       size_t *hits);

/**
 * Visits the entries from key `from` on, up to but without key `to`, in the order of keys; NULL
 * for either end of the table.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no such entry. The first scan of a table sorts it.
 * Errors: `FANREAD_NULL` also if there is no `visit`. Threads: any.
 */
fanread_status fanread_table_scan(const fanread_table *table,
                                  const void *from,
                                  size_t from_len,
                                  const void *to,
                                  size_t to_len,
                                  fanread_visit visit,
                                  void *context);

/**
 * Looks at all of a table, and finds damage that lookups would not notice.
 *
 * Returns `FANREAD_OK`, or `FANREAD_DAMAGED`. Threads: any.
 */
fanread_status fanread_table_check(const fanread_table *table);

/**
 * Makes a store in memory, which nothing survives but the process itself. `options` may be NULL.
 *
 * Errors: `FANREAD_ARGUMENT` for options that cannot be, `FANREAD_IO`, `FANREAD_OUT_OF_MEMORY`;
 * `*store` is NULL then.
 * Ownership: the caller frees it by `fanread_store_free`. Threads: any.
 */
fanread_status fanread_store_in_memory(const fanread_store_options *options, fanread_store **store);

/**
 * Makes a store in a new file. `options` may be NULL.
 *
 * Errors: `FANREAD_ARGUMENT` for options that cannot be; `FANREAD_IO` if there is a file of that
 * name, or none can be made; `FANREAD_OUT_OF_MEMORY`. `*store` is NULL then.
 * Ownership: the caller frees it by `fanread_store_free`. Threads: any.
 */
fanread_status fanread_store_create(const char *path,
                                    const fanread_store_options *options,
                                    fanread_store **store);

/**
 * Opens the store in a file, and finishes what a crash has left unfinished there.
 *
 * Errors: `FANREAD_BUSY` if it is open already, `FANREAD_IO`, `FANREAD_DAMAGED`,
 * `FANREAD_OUT_OF_MEMORY`; `*store` is NULL then.
 * Ownership: the caller frees it by `fanread_store_free`. Threads: any.
 */
fanread_status fanread_store_open(const char *path, fanread_store **store);

/**
 * Closes and frees a store. NULL is nothing to free. With checkpoints it makes one, and says nothing if that fails:
 * call `fanread_store_sync` before, to know.
 *
 * Threads: one, while no other uses the store.
 */
fanread_status fanread_store_free(fanread_store *store);

/**
 * Writes to the disk what has changed; with checkpoints, what has been acknowledged so far survives a power cut once
 * this has returned `FANREAD_OK`.
 *
 * Errors: `FANREAD_IO`. Threads: any.
 */
fanread_status fanread_store_sync(const fanread_store *store);

/**
 * Verifies the invariants of a store that nobody changes meanwhile.
 *
 * Returns `FANREAD_OK`, or `FANREAD_DAMAGED`. Threads: any.
 */
fanread_status fanread_store_check(const fanread_store *store);

/**
 * Stores what the contents survive, one of `fanread_durability`.
 *
 * Threads: any.
 */
fanread_status fanread_store_durability(const fanread_store *store, int32_t *durability);

/**
 * Stores how many keys there are. Takes a line of memory for each segment; the first time after it
 * was opened, all of it.
 *
 * Threads: any.
 */
fanread_status fanread_store_len(const fanread_store *store, size_t *len);

/**
 * Stores the value of a key in the buffer `value`, unless that is NULL.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`; the buffer is empty then. Ownership: the buffer is the caller's.
 * Threads: any.
 */
fanread_status fanread_store_get(const fanread_store *store,
                                 const void *key,
                                 size_t key_len,
                                 fanread_buffer *value);

/**
 * Maps a key to a value. The value that is replaced goes to the buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value: it survives what the store survives.
 * Errors: `FANREAD_IO` if the file cannot grow, `FANREAD_CROWDED`, `FANREAD_TOO_LONG`,
 * `FANREAD_OUT_OF_MEMORY`. The store is as it was then. Ownership: the buffer is the caller's.
 * Threads: any.
 */
fanread_status fanread_store_insert(const fanread_store *store,
                                    const void *key,
                                    size_t key_len,
                                    const void *value,
                                    size_t value_len,
                                    fanread_buffer *old);

/**
 * Removes a key. The value that it had goes to the buffer `old`, unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key. Ownership: the buffer is the caller's.
 * Threads: any.
 */
fanread_status fanread_store_remove(const fanread_store *store,
                                    const void *key,
                                    size_t key_len,
                                    fanread_buffer *old);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls. The
 * bytes of all values found go to the buffer `room`, and `values[i]` says where in it the value of
 * key `i` is; its `data` is NULL if there is none.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Ownership: arrays and buffer are the caller's. What `values` point to is valid until the buffer
 * is used again. Threads: any.
 */
fanread_status fanread_store_get_batch(const fanread_store *store,
                                       const fanread_bytes *keys,
                                       size_t count,
                                       fanread_bytes *values,
                                       fanread_buffer *room,
                                       size_t *hits);

/**
 * Visits all entries, in no order that means anything. A key that is there all the time is visited
 * once, one that comes or goes meanwhile at most once. `visit` may use the store.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no entry.
 * Errors: `FANREAD_NULL` also if there is no `visit`. Threads: any.
 */
fanread_status fanread_store_scan(const fanread_store *store, fanread_visit visit, void *context);

/**
 * Makes a store in memory, which nothing survives but the process itself. `options` may be NULL.
 *
 * Errors: `FANREAD_ARGUMENT` for options that cannot be, `FANREAD_IO`, `FANREAD_OUT_OF_MEMORY`;
 * `*store` is NULL then.
 * Ownership: the caller frees it by `fanread_u64_store_free`. Threads: any.
 */
fanread_status fanread_u64_store_in_memory(const fanread_store_options *options,
                                           fanread_u64_store **store);

/**
 * Makes a store in a new file. `options` may be NULL.
 *
 * Errors: `FANREAD_ARGUMENT` for options that cannot be; `FANREAD_IO` if there is a file of that
 * name, or none can be made; `FANREAD_OUT_OF_MEMORY`. `*store` is NULL then.
 * Ownership: the caller frees it by `fanread_u64_store_free`. Threads: any.
 */
fanread_status fanread_u64_store_create(const char *path,
                                        const fanread_store_options *options,
                                        fanread_u64_store **store);

/**
 * Opens the store in a file, and finishes what a crash has left unfinished there.
 *
 * Errors: `FANREAD_BUSY` if it is open already, `FANREAD_IO`, `FANREAD_DAMAGED`,
 * `FANREAD_OUT_OF_MEMORY`; `*store` is NULL then.
 * Ownership: the caller frees it by `fanread_u64_store_free`. Threads: any.
 */
fanread_status fanread_u64_store_open(const char *path, fanread_u64_store **store);

/**
 * Closes and frees a store. NULL is nothing to free. With checkpoints it makes one, and says nothing if that fails:
 * call `fanread_u64_store_sync` before, to know.
 *
 * Threads: one, while no other uses the store.
 */
fanread_status fanread_u64_store_free(fanread_u64_store *store);

/**
 * Writes to the disk what has changed; with checkpoints, what has been acknowledged so far survives a power cut once
 * this has returned `FANREAD_OK`.
 *
 * Errors: `FANREAD_IO`. Threads: any.
 */
fanread_status fanread_u64_store_sync(const fanread_u64_store *store);

/**
 * Verifies the invariants of a store that nobody changes meanwhile.
 *
 * Returns `FANREAD_OK`, or `FANREAD_DAMAGED`. Threads: any.
 */
fanread_status fanread_u64_store_check(const fanread_u64_store *store);

/**
 * Stores what the contents survive, one of `fanread_durability`.
 *
 * Threads: any.
 */
fanread_status fanread_u64_store_durability(const fanread_u64_store *store, int32_t *durability);

/**
 * Stores how many keys there are. Takes a line of memory for each segment; the first time after it
 * was opened, all of it.
 *
 * Threads: any.
 */
fanread_status fanread_u64_store_len(const fanread_u64_store *store, size_t *len);

/**
 * Stores the value of a key in `*value`, unless that is NULL.
 *
 * Returns `FANREAD_OK` or `FANREAD_NOT_FOUND`. Threads: any.
 */
fanread_status fanread_u64_store_get(const fanread_u64_store *store, uint64_t key, uint64_t *value);

/**
 * Maps a key to a value. The value that is replaced goes to `*old`, unless it is NULL.
 *
 * Returns `FANREAD_OK` if the key is new, `FANREAD_REPLACED` if it had a value: it survives what the store survives.
 * Errors: `FANREAD_IO` if the file cannot grow, `FANREAD_CROWDED`, `FANREAD_OUT_OF_MEMORY`. The
 * store is as it was then.
 * Threads: any.
 */
fanread_status fanread_u64_store_insert(const fanread_u64_store *store,
                                        uint64_t key,
                                        uint64_t value,
                                        uint64_t *old);

/**
 * Removes a key. The value that it had goes to `*old`, unless it is NULL.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there is no such key.
 * Threads: any.
 */
fanread_status fanread_u64_store_remove(const fanread_u64_store *store,
                                        uint64_t key,
                                        uint64_t *old);

/**
 * Looks for many keys at once, which takes a fraction of the time of as many single calls.
 * `values[i]` gets the value of key `i`, or 0, and `found[i]` 1 or 0, unless it is NULL.
 *
 * `hits` gets how many keys were found, unless it is NULL. Returns `FANREAD_OK`.
 * Ownership: arrays are the caller's, of `count` items each. Threads: any.
 */
fanread_status fanread_u64_store_get_batch(const fanread_u64_store *store,
                                           const uint64_t *keys,
                                           size_t count,
                                           uint64_t *values,
                                           uint8_t *found,
                                           size_t *hits);

/**
 * Visits all entries, in no order that means anything. A key that is there all the time is visited
 * once, one that comes or goes meanwhile at most once. `visit` may use the store.
 *
 * Returns `FANREAD_OK`, or `FANREAD_NOT_FOUND` if there was no entry.
 * Errors: `FANREAD_NULL` also if there is no `visit`. Threads: any.
 */
fanread_status fanread_u64_store_scan(const fanread_u64_store *store,
                                      fanread_u64_visit visit,
                                      void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FANREAD_H */
