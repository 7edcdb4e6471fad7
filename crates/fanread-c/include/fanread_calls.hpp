/* What fanread.hpp is made of: the functions of C with one name for each in all forms of keys and
 * values, numbers and byte strings. Nothing here is for users. */
#ifndef FANREAD_CALLS_HPP
#define FANREAD_CALLS_HPP

#include <fanread.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>

namespace fanread::detail {

/** Room for bytes that calls return. */
class buffer {
 public:
  buffer() noexcept = default;
  buffer(const buffer &) = delete;
  buffer &operator=(const buffer &) = delete;
  ~buffer() { fanread_buffer_free(&raw_); }

  fanread_buffer *raw() noexcept { return &raw_; }
  std::string_view view() const noexcept {
    return {reinterpret_cast<const char *>(raw_.data), raw_.len};
  }

 private:
  fanread_buffer raw_ = FANREAD_BUFFER_INIT;
};

/** How a key or a value is passed and where it is received: numbers as they are, strings as views and in buffers. */
template <class T>
struct form;

template <>
struct form<std::uint64_t> {
  using view = std::uint64_t;
  using out = std::uint64_t;
  static std::uint64_t take(const out &place) noexcept { return place; }
};

template <>
struct form<std::string> {
  using view = std::string_view;
  using out = buffer;
  static std::string take(const out &place) { return std::string(place.view()); }
};

inline std::string_view view_of(fanread_bytes bytes) noexcept {
  return {reinterpret_cast<const char *>(bytes.data), bytes.len};
}

inline std::uint64_t view_of(std::uint64_t number) noexcept { return number; }

inline fanread_bytes bytes_of(std::string_view view) noexcept {
  return {reinterpret_cast<const std::uint8_t *>(view.data()), view.size()};
}

inline fanread_status get(const fanread_map *map, std::string_view key, std::uint64_t *value) {
  return fanread_map_get(map, key.data(), key.size(), value);
}

inline fanread_status insert(const fanread_map *map, std::string_view key, std::uint64_t value,
                             std::uint64_t *old) {
  return fanread_map_insert(map, key.data(), key.size(), value, old);
}

inline fanread_status remove(const fanread_map *map, std::string_view key, std::uint64_t *old) {
  return fanread_map_remove(map, key.data(), key.size(), old);
}

inline fanread_status replace(const fanread_map *map, std::string_view key, std::uint64_t value,
                              std::uint64_t *old) {
  return fanread_map_replace(map, key.data(), key.size(), value, old);
}

inline fanread_status get_or_insert(const fanread_map *map, std::string_view key,
                                    std::uint64_t value, std::uint64_t *there) {
  return fanread_map_get_or_insert(map, key.data(), key.size(), value, there);
}

inline fanread_status compare_exchange(const fanread_map *map, std::string_view key,
                                       std::uint64_t expected, std::uint64_t desired,
                                       std::uint64_t *found) {
  return fanread_map_compare_exchange(map, key.data(), key.size(), expected, desired, found);
}

inline fanread_status find(const fanread_map *map, std::int32_t place, std::string_view key,
                           buffer *found_key, std::uint64_t *value) {
  return fanread_map_find(map, place, key.data(), key.size(), found_key->raw(), value);
}

inline fanread_status insert_batch(const fanread_map *map, const fanread_bytes *keys,
                                   const std::uint64_t *values, std::size_t count) {
  return fanread_map_insert_batch(map, keys, values, count);
}

inline fanread_status from_sorted(std::int32_t kind, const fanread_bytes *keys,
                                  const std::uint64_t *values, std::size_t count,
                                  fanread_map **map) {
  return fanread_map_from_sorted(kind, keys, values, count, map);
}

inline fanread_status get_batch(const fanread_map *map, const fanread_bytes *keys,
                                std::size_t count, std::uint64_t *values, std::uint8_t *found,
                                std::size_t *hits) {
  return fanread_map_get_batch(map, keys, count, values, found, hits);
}

inline fanread_status contains(const fanread_map *map, std::string_view key) {
  return fanread_map_contains(map, key.data(), key.size());
}

inline fanread_status contains_batch(const fanread_map *map, const fanread_bytes *keys,
                                     std::size_t count, std::uint8_t *found, std::size_t *hits) {
  return fanread_map_contains_batch(map, keys, count, found, hits);
}

inline fanread_status get(const fanread_map *map, std::string_view key, buffer *value) {
  return fanread_map_get_bytes(map, key.data(), key.size(), value->raw());
}

inline fanread_status insert(const fanread_map *map, std::string_view key, std::string_view value,
                             buffer *old) {
  return fanread_map_insert_bytes(map, key.data(), key.size(), value.data(), value.size(),
                                  old->raw());
}

inline fanread_status remove(const fanread_map *map, std::string_view key, buffer *old) {
  return fanread_map_remove_bytes(map, key.data(), key.size(), old->raw());
}

inline fanread_status replace(const fanread_map *map, std::string_view key, std::string_view value,
                              buffer *old) {
  return fanread_map_replace_bytes(map, key.data(), key.size(), value.data(), value.size(),
                                   old->raw());
}

inline fanread_status get_or_insert(const fanread_map *map, std::string_view key,
                                    std::string_view value, buffer *there) {
  return fanread_map_get_or_insert_bytes(map, key.data(), key.size(), value.data(), value.size(),
                                         there->raw());
}

inline fanread_status compare_exchange(const fanread_map *map, std::string_view key,
                                       std::string_view expected, std::string_view desired,
                                       buffer *found) {
  return fanread_map_compare_exchange_bytes(map, key.data(), key.size(), expected.data(),
                                            expected.size(), desired.data(), desired.size(),
                                            found->raw());
}

inline fanread_status find(const fanread_map *map, std::int32_t place, std::string_view key,
                           buffer *found_key, buffer *value) {
  return fanread_map_find_bytes(map, place, key.data(), key.size(), found_key->raw(), value->raw());
}

inline fanread_status insert_batch(const fanread_map *map, const fanread_bytes *keys,
                                   const fanread_bytes *values, std::size_t count) {
  return fanread_map_insert_batch_bytes(map, keys, values, count);
}

inline fanread_status from_sorted(std::int32_t kind, const fanread_bytes *keys,
                                  const fanread_bytes *values, std::size_t count,
                                  fanread_map **map) {
  return fanread_map_from_sorted_bytes(kind, keys, values, count, map);
}

inline fanread_status get_batch(const fanread_map *map, const fanread_bytes *keys,
                                std::size_t count, fanread_bytes *values, buffer *room,
                                std::size_t *hits) {
  return fanread_map_get_batch_bytes(map, keys, count, values, room->raw(), hits);
}

inline fanread_status get(const fanread_map *map, std::uint64_t key, std::uint64_t *value) {
  return fanread_map_u64_get(map, key, value);
}

inline fanread_status insert(const fanread_map *map, std::uint64_t key, std::uint64_t value,
                             std::uint64_t *old) {
  return fanread_map_u64_insert(map, key, value, old);
}

inline fanread_status remove(const fanread_map *map, std::uint64_t key, std::uint64_t *old) {
  return fanread_map_u64_remove(map, key, old);
}

inline fanread_status replace(const fanread_map *map, std::uint64_t key, std::uint64_t value,
                              std::uint64_t *old) {
  return fanread_map_u64_replace(map, key, value, old);
}

inline fanread_status get_or_insert(const fanread_map *map, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t *there) {
  return fanread_map_u64_get_or_insert(map, key, value, there);
}

inline fanread_status compare_exchange(const fanread_map *map, std::uint64_t key,
                                       std::uint64_t expected, std::uint64_t desired,
                                       std::uint64_t *found) {
  return fanread_map_u64_compare_exchange(map, key, expected, desired, found);
}

inline fanread_status find(const fanread_map *map, std::int32_t place, std::uint64_t key,
                           std::uint64_t *found_key, std::uint64_t *value) {
  return fanread_map_u64_find(map, place, key, found_key, value);
}

inline fanread_status insert_batch(const fanread_map *map, const std::uint64_t *keys,
                                   const std::uint64_t *values, std::size_t count) {
  return fanread_map_u64_insert_batch(map, keys, values, count);
}

inline fanread_status from_sorted(std::int32_t kind, const std::uint64_t *keys,
                                  const std::uint64_t *values, std::size_t count,
                                  fanread_map **map) {
  return fanread_map_u64_from_sorted(kind, keys, values, count, map);
}

inline fanread_status get_batch(const fanread_map *map, const std::uint64_t *keys,
                                std::size_t count, std::uint64_t *values, std::uint8_t *found,
                                std::size_t *hits) {
  return fanread_map_u64_get_batch(map, keys, count, values, found, hits);
}

inline fanread_status contains(const fanread_map *map, std::uint64_t key) {
  return fanread_map_u64_contains(map, key);
}

inline fanread_status contains_batch(const fanread_map *map, const std::uint64_t *keys,
                                     std::size_t count, std::uint8_t *found, std::size_t *hits) {
  return fanread_map_u64_contains_batch(map, keys, count, found, hits);
}

inline fanread_status get(const fanread_map *map, std::uint64_t key, buffer *value) {
  return fanread_map_u64_get_bytes(map, key, value->raw());
}

inline fanread_status insert(const fanread_map *map, std::uint64_t key, std::string_view value,
                             buffer *old) {
  return fanread_map_u64_insert_bytes(map, key, value.data(), value.size(), old->raw());
}

inline fanread_status remove(const fanread_map *map, std::uint64_t key, buffer *old) {
  return fanread_map_u64_remove_bytes(map, key, old->raw());
}

inline fanread_status replace(const fanread_map *map, std::uint64_t key, std::string_view value,
                              buffer *old) {
  return fanread_map_u64_replace_bytes(map, key, value.data(), value.size(), old->raw());
}

inline fanread_status get_or_insert(const fanread_map *map, std::uint64_t key,
                                    std::string_view value, buffer *there) {
  return fanread_map_u64_get_or_insert_bytes(map, key, value.data(), value.size(), there->raw());
}

inline fanread_status compare_exchange(const fanread_map *map, std::uint64_t key,
                                       std::string_view expected, std::string_view desired,
                                       buffer *found) {
  return fanread_map_u64_compare_exchange_bytes(map, key, expected.data(), expected.size(),
                                                desired.data(), desired.size(), found->raw());
}

inline fanread_status find(const fanread_map *map, std::int32_t place, std::uint64_t key,
                           std::uint64_t *found_key, buffer *value) {
  return fanread_map_u64_find_bytes(map, place, key, found_key, value->raw());
}

inline fanread_status insert_batch(const fanread_map *map, const std::uint64_t *keys,
                                   const fanread_bytes *values, std::size_t count) {
  return fanread_map_u64_insert_batch_bytes(map, keys, values, count);
}

inline fanread_status from_sorted(std::int32_t kind, const std::uint64_t *keys,
                                  const fanread_bytes *values, std::size_t count,
                                  fanread_map **map) {
  return fanread_map_u64_from_sorted_bytes(kind, keys, values, count, map);
}

inline fanread_status get_batch(const fanread_map *map, const std::uint64_t *keys,
                                std::size_t count, fanread_bytes *values, buffer *room,
                                std::size_t *hits) {
  return fanread_map_u64_get_batch_bytes(map, keys, count, values, room->raw(), hits);
}

inline fanread_status seek(fanread_cursor *cursor, std::int32_t place, std::string_view key) {
  return fanread_cursor_seek(cursor, place, key.data(), key.size());
}

inline fanread_status seek(fanread_cursor *cursor, std::int32_t place, std::uint64_t key) {
  return fanread_cursor_u64_seek(cursor, place, key);
}

/* Scans: the callback of C that fits keys and values of a form. */

template <class Visitor>
fanread_status scan(const fanread_map *map, std::int32_t place, std::string_view key,
                    Visitor &visitor, std::uint64_t) {
  return fanread_map_scan(map, place, key.data(), key.size(), &Visitor::string_number, &visitor);
}

template <class Visitor>
fanread_status scan(const fanread_map *map, std::int32_t place, std::string_view key,
                    Visitor &visitor, std::string_view) {
  return fanread_map_scan_bytes(map, place, key.data(), key.size(), &Visitor::strings, &visitor);
}

template <class Visitor>
fanread_status scan(const fanread_map *map, std::int32_t place, std::uint64_t key,
                    Visitor &visitor, std::uint64_t) {
  return fanread_map_u64_scan(map, place, key, &Visitor::numbers, &visitor);
}

template <class Visitor>
fanread_status scan(const fanread_map *map, std::int32_t place, std::uint64_t key,
                    Visitor &visitor, std::string_view) {
  return fanread_map_u64_scan_bytes(map, place, key, &Visitor::number_string, &visitor);
}

template <class Visitor>
fanread_status scan_chunks(const fanread_map *map, std::int32_t place, std::string_view key,
                           std::size_t limit, Visitor &visitor) {
  return fanread_map_scan_chunks(map, place, key.data(), key.size(), limit,
                                 &Visitor::template chunks<fanread_bytes>, &visitor);
}

template <class Visitor>
fanread_status scan_chunks(const fanread_map *map, std::int32_t place, std::uint64_t key,
                           std::size_t limit, Visitor &visitor) {
  return fanread_map_u64_scan_chunks(map, place, key, limit,
                                     &Visitor::template chunks<std::uint64_t>, &visitor);
}

/** Calls a function of the caller from C. What it throws waits until C has returned. */
template <class Visit>
struct visitor {
  Visit &visit;
  std::exception_ptr thrown = nullptr;

  template <class... Entry>
  std::int32_t call(Entry... entry) noexcept {
    try {
      if constexpr (std::is_same_v<decltype(visit(entry...)), bool>) {
        return visit(entry...) ? 0 : 1;
      } else {
        visit(entry...);
        return 0;
      }
    } catch (...) {
      thrown = std::current_exception();
      return 1;
    }
  }

  static std::int32_t strings(void *self, fanread_bytes key, fanread_bytes value) noexcept {
    return static_cast<visitor *>(self)->call(view_of(key), view_of(value));
  }

  static std::int32_t string_number(void *self, fanread_bytes key, std::uint64_t value) noexcept {
    return static_cast<visitor *>(self)->call(view_of(key), value);
  }

  static std::int32_t numbers(void *self, std::uint64_t key, std::uint64_t value) noexcept {
    return static_cast<visitor *>(self)->call(key, value);
  }

  static std::int32_t number_string(void *self, std::uint64_t key, fanread_bytes value) noexcept {
    return static_cast<visitor *>(self)->call(key, view_of(value));
  }

  template <class Key>
  static std::int32_t chunks(void *self, const Key *keys, const std::uint64_t *values,
                             std::size_t count) noexcept {
    return static_cast<visitor *>(self)->call(keys, values, count);
  }
};

}  // namespace fanread::detail

#endif
