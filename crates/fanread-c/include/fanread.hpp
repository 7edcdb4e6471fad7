/* fanread for C++17: handles that free themselves, std::optional for what may be absent, exceptions
 * for what went wrong, and iterators for range-for. Header only, over fanread.h.
 *
 *   fanread::map<std::string, std::uint64_t> map;
 *   map.insert("kiwi", 3);
 *   if (auto value = map.get("kiwi")) use(*value);
 *   for (auto [key, value] : map.from("k")) use(key, value);
 *
 * A map has keys of std::string or std::uint64_t, and values of std::uint64_t or std::string. Any
 * number of threads may use a map at once, through any of its functions but moves and the destructor.
 * A status that says that something went wrong becomes a fanread::error. */
#ifndef FANREAD_HPP
#define FANREAD_HPP

#include <fanread.h>
#include <fanread_calls.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<span>)
#include <span>
#define FANREAD_HAS_SPAN 1
#endif
#endif

namespace fanread {

#ifdef FANREAD_HAS_SPAN
using std::span;
#else
/** A pointer and a length: what there is of std::span before C++20. */
template <class T>
class span {
 public:
  constexpr span() noexcept = default;
  constexpr span(T *first, std::size_t count) noexcept : first_(first), count_(count) {}
  template <class Array, class = std::enable_if_t<std::is_convertible_v<
                             decltype(std::data(std::declval<Array &>())), T *>>>
  constexpr span(Array &&array) noexcept : first_(std::data(array)), count_(std::size(array)) {}

  constexpr T *data() const noexcept { return first_; }
  constexpr std::size_t size() const noexcept { return count_; }
  constexpr bool empty() const noexcept { return count_ == 0; }
  constexpr T &operator[](std::size_t index) const { return first_[index]; }
  constexpr T *begin() const noexcept { return first_; }
  constexpr T *end() const noexcept { return first_ + count_; }

 private:
  T *first_ = nullptr;
  std::size_t count_ = 0;
};
#endif

/** A call that did nothing, and why. */
class error : public std::runtime_error {
 public:
  explicit error(fanread_status status) : error(status, fanread_last_error()) {}
  error(fanread_status status, const std::string &text)
      : std::runtime_error(text.empty() ? fanread_status_message(status) : text), status_(status) {}

  fanread_status status() const noexcept { return status_; }

 private:
  fanread_status status_;
};

/** The version of the library that is running. */
inline std::string_view version() { return fanread_version(); }

/** The kinds of maps. */
enum class kind : std::int32_t {
  ordered_map = FANREAD_ORDERED_MAP,
  u64_map = FANREAD_U64_MAP,
  wormhole = FANREAD_WORMHOLE,
  cuckoo_trie = FANREAD_CUCKOO_TRIE,
  mlp_index = FANREAD_MLP_INDEX,
  skip_list = FANREAD_SKIP_LIST,
};

namespace detail {

/** Passes on a status that is no error. */
inline fanread_status check(fanread_status status) {
  if (status < 0) throw error(status);
  return status;
}

/** Many keys or values as C takes them. Numbers stay where they are. */
template <class T>
class many;

template <>
class many<std::uint64_t> {
 public:
  template <class Array>
  explicit many(const Array &array) : data_(std::data(array)), size_(std::size(array)) {}
  const std::uint64_t *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  const std::uint64_t *data_;
  std::size_t size_;
};

template <>
class many<std::string> {
 public:
  template <class Array>
  explicit many(const Array &array) {
    strings_.reserve(std::size(array));
    for (const auto &string : array) strings_.push_back(bytes_of(string));
  }
  const fanread_bytes *data() const noexcept { return strings_.data(); }
  std::size_t size() const noexcept { return strings_.size(); }

 private:
  std::vector<fanread_bytes> strings_;
};

inline void same_size(std::size_t keys, std::size_t others) {
  if (keys != others) throw error(FANREAD_ARGUMENT, "as many of them as keys are needed");
}

inline void key_of(const fanread_cursor *cursor, std::string_view &key) {
  fanread_bytes bytes;
  check(fanread_cursor_key(cursor, &bytes));
  key = view_of(bytes);
}

inline void key_of(const fanread_cursor *cursor, std::uint64_t &key) {
  check(fanread_cursor_u64_key(cursor, &key));
}

inline void value_of(const fanread_cursor *cursor, std::string_view &value) {
  fanread_bytes bytes;
  check(fanread_cursor_value_bytes(cursor, &bytes));
  value = view_of(bytes);
}

inline void value_of(const fanread_cursor *cursor, std::uint64_t &value) {
  check(fanread_cursor_value(cursor, &value));
}

/** Passes on what a function of the caller has thrown, or the status of the call. */
template <class Visit>
void done(const visitor<Visit> &visitor, fanread_status status) {
  if (visitor.thrown) std::rethrow_exception(visitor.thrown);
  check(status);
}

template <class T, fanread_status (*Free)(T *)>
struct freeing {
  void operator()(T *handle) const noexcept { Free(handle); }
};

template <class T, fanread_status (*Free)(T *)>
using handle = std::unique_ptr<T, freeing<T, Free>>;

/** Takes the handle that a call stores. */
template <class Handle, class Make>
Handle made(Make make) {
  typename Handle::pointer raw = nullptr;
  check(make(&raw));
  return Handle(raw);
}

}  // namespace detail

/** An entry that a cursor shows. Strings are views into the cursor, valid until it moves. */
template <class Key, class Value>
struct entry_view {
  typename detail::form<Key>::view key;
  typename detail::form<Value>::view value;
};

/** Some entries of a scan in order, as they lie in the map: valid during the call that is given them. */
template <class Key>
class chunk {
  using place = std::conditional_t<std::is_same_v<Key, std::uint64_t>, std::uint64_t, fanread_bytes>;

 public:
  chunk(const place *keys, const std::uint64_t *values, std::size_t count) noexcept
      : keys_(keys), values_(values), count_(count) {}

  std::size_t size() const noexcept { return count_; }
  typename detail::form<Key>::view key(std::size_t index) const noexcept {
    return detail::view_of(keys_[index]);
  }
  std::uint64_t value(std::size_t index) const noexcept { return values_[index]; }

 private:
  const place *keys_;
  const std::uint64_t *values_;
  std::size_t count_;
};

/** An entry that was copied. */
template <class Key, class Value>
struct entry {
  Key key;
  Value value;
};

template <class Key, class Value>
class map;

/** Keeps this thread pinned, which makes each of its calls on maps cheaper; see fanread_pin. It may be moved, but not to
 * another thread. Where the thread goes on to wait, let it end before.
 *
 *   fanread::pin pin;
 *   const auto held = map.under(pin);
 *   for (std::size_t i = 0; i < keys.size(); i++) {
 *     if (i % 256 == 255) pin.repin();
 *     use(held.get(keys[i]));
 *   } */
class pin {
 public:
  pin() : handle_(detail::made<owned>([](auto **raw) { return fanread_pin(raw); })) {}

  /** Lets memory be used again that maps have given up: to be called every few hundred calls. */
  void repin() { detail::check(fanread_repin(handle_.get())); }

  /** The handle, for functions of C. */
  fanread_guard *raw() const noexcept { return handle_.get(); }

 private:
  using owned = detail::handle<fanread_guard, fanread_unpin>;
  owned handle_;
};

/** A place in a map's order; see fanread_cursor. It keeps the map's entries, and may be passed from thread to thread. */
template <class Key, class Value>
class cursor {
 public:
  using key_view = typename detail::form<Key>::view;
  using value_view = typename detail::form<Value>::view;

  /** Sets how many entries are read at a time; 0 leaves it to the cursor. */
  void read_ahead(std::size_t entries) {
    detail::check(fanread_cursor_read_ahead(handle_.get(), entries));
  }

  /* Each moves to an entry, and returns whether there is one. */
  bool seek_first() { return moved(fanread_cursor_seek_first(handle_.get())); }
  bool seek_last() { return moved(fanread_cursor_seek_last(handle_.get())); }
  bool seek(key_view key) { return to(FANREAD_AT_OR_ABOVE, key); }
  bool seek_above(key_view key) { return to(FANREAD_ABOVE, key); }
  bool seek_at_or_below(key_view key) { return to(FANREAD_AT_OR_BELOW, key); }
  bool seek_below(key_view key) { return to(FANREAD_BELOW, key); }
  bool next() { return moved(fanread_cursor_next(handle_.get())); }
  bool prev() { return moved(fanread_cursor_prev(handle_.get())); }

  /* The entry it is at; an error if it is at none. */
  key_view key() const {
    key_view key;
    detail::key_of(handle_.get(), key);
    return key;
  }
  value_view value() const {
    value_view value;
    detail::value_of(handle_.get(), value);
    return value;
  }

 private:
  friend class map<Key, Value>;
  using owned = detail::handle<fanread_cursor, fanread_cursor_free>;

  explicit cursor(const fanread_map *map)
      : handle_(detail::made<owned>([&](auto **raw) { return fanread_cursor_new(map, raw); })) {}

  bool to(fanread_place place, key_view key) {
    return moved(detail::seek(handle_.get(), place, key));
  }
  static bool moved(fanread_status status) { return detail::check(status) == FANREAD_OK; }

  owned handle_;
};

/** A map; see fanread_map. Keys are std::string or std::uint64_t, values std::uint64_t or std::string. */
template <class Key = std::string, class Value = std::uint64_t>
class map {
  using out = typename detail::form<Value>::out;
  static constexpr bool has_numbers = std::is_same_v<Value, std::uint64_t>;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using key_view = typename detail::form<Key>::view;
  using value_view = typename detail::form<Value>::view;
  using cursor_type = cursor<Key, Value>;

  /** The kind to take unless another is better. */
  static constexpr kind usual =
      std::is_same_v<Key, std::string> ? kind::ordered_map : kind::u64_map;

  explicit map(kind of = usual, const fanread_options *options = nullptr)
      : handle_(detail::made<owned>([&](auto **raw) {
          return fanread_map_new(static_cast<std::int32_t>(of), values, options, raw);
        })) {}

  /** A map of the kind of a name, such as "wormhole". */
  explicit map(const std::string &name, const fanread_options *options = nullptr)
      : handle_(detail::made<owned>([&](auto **raw) {
          return fanread_map_new_named(name.c_str(), values, options, raw);
        })) {}

  /** A map of entries whose keys ascend, from two arrays of the same length. */
  template <class Keys, class Values>
  static map from_sorted(const Keys &keys, const Values &values, kind of = usual) {
    const detail::many<Key> k(keys);
    const detail::many<Value> v(values);
    detail::same_size(k.size(), v.size());
    return map(detail::made<owned>([&](auto **raw) {
      return detail::from_sorted(static_cast<std::int32_t>(of), k.data(), v.data(), k.size(), raw);
    }));
  }

  std::optional<Value> get(key_view key) const {
    return answer([&](out *value) { return detail::get(raw(), key, value); });
  }

  bool contains(key_view key) const {
    return detail::check(detail::contains(raw(), key)) == FANREAD_OK;
  }

  /** Maps a key to a value, and returns the value that is replaced. */
  std::optional<Value> insert(key_view key, value_view value) {
    return displaced([&](out *old) { return detail::insert(raw(), key, value, old); });
  }

  /** Removes a key, and returns its value. */
  std::optional<Value> remove(key_view key) {
    return answer([&](out *old) { return detail::remove(raw(), key, old); });
  }

  /** Maps a key to a value if it has one already, and returns that. */
  std::optional<Value> replace(key_view key, value_view value) {
    return displaced([&](out *old) { return detail::replace(raw(), key, value, old); });
  }

  /** Maps a key to a value unless it has one, and returns the value that it has then. */
  Value get_or_insert(key_view key, value_view value) {
    out there{};
    detail::check(detail::get_or_insert(raw(), key, value, &there));
    return detail::form<Value>::take(there);
  }

  /** What compare_exchange did, and the value that was there. */
  struct exchange {
    bool done;
    std::optional<Value> found;
    explicit operator bool() const noexcept { return done; }
  };

  /** Maps a key to `desired` if its value is `expected`. */
  exchange compare_exchange(key_view key, value_view expected, value_view desired) {
    out found{};
    const fanread_status status =
        detail::check(detail::compare_exchange(raw(), key, expected, desired, &found));
    if (status == FANREAD_NOT_FOUND) return {false, std::nullopt};
    return {status == FANREAD_REPLACED, detail::form<Value>::take(found)};
  }

  using entry_type = entry<Key, Value>;
  std::optional<entry_type> first() const { return find(FANREAD_FIRST, key_view{}); }
  std::optional<entry_type> last() const { return find(FANREAD_LAST, key_view{}); }
  /** The first entry at a key or above it. */
  std::optional<entry_type> lower_bound(key_view key) const {
    return find(FANREAD_AT_OR_ABOVE, key);
  }
  std::optional<entry_type> above(key_view key) const { return find(FANREAD_ABOVE, key); }
  /** The last entry at a key or below it. */
  std::optional<entry_type> at_or_below(key_view key) const {
    return find(FANREAD_AT_OR_BELOW, key);
  }
  std::optional<entry_type> below(key_view key) const { return find(FANREAD_BELOW, key); }

  /** Calls `visit(key, value)` for each entry from a key on, in order; false from it ends the scan, and
   * so does an exception. The fastest way through a map: nothing is copied, views are valid during the
   * call. */
  template <class Visit>
  void scan(Visit &&visit, std::optional<key_view> from = {}) const {
    detail::visitor<std::remove_reference_t<Visit>> visitor{visit};
    const fanread_place place = from ? FANREAD_AT_OR_ABOVE : FANREAD_FIRST;
    const key_view key = from.value_or(key_view{});
    detail::done(visitor, detail::scan(raw(), place, key, visitor, value_view{}));
  }

  /** Calls `visit(chunk)` with several entries at a time, of type `chunk<Key>`, and with at most `limit` in all; otherwise as
   * `scan`. It takes less time for each, but entries are read before those in front of them were seen. For maps with
   * numbers as values. */
  template <class Visit>
  void scan_chunks(Visit &&visit, std::optional<key_view> from = {},
                   std::size_t limit = SIZE_MAX) const {
    static_assert(has_numbers, "chunks have numbers as values");
    const auto take = [&](const auto *keys, const std::uint64_t *values, std::size_t count) {
      return visit(chunk<Key>(keys, values, count));
    };
    detail::visitor<decltype(take)> visitor{take};
    const fanread_place place = from ? FANREAD_AT_OR_ABOVE : FANREAD_FIRST;
    const key_view key = from.value_or(key_view{});
    detail::done(visitor, detail::scan_chunks(raw(), place, key, limit, visitor));
  }

  /** Looks for many keys at once: an array of numbers, or of anything that a std::string_view is made of. */
  template <class Keys>
  std::vector<std::optional<Value>> get_batch(const Keys &keys) const {
    const detail::many<Key> k(keys);
    std::vector<std::optional<Value>> found(k.size());
    if constexpr (has_numbers) {
      std::vector<std::uint64_t> values(k.size());
      std::vector<std::uint8_t> is_there(k.size());
      detail::check(
          detail::get_batch(raw(), k.data(), k.size(), values.data(), is_there.data(), nullptr));
      for (std::size_t i = 0; i < k.size(); i++)
        if (is_there[i]) found[i] = values[i];
    } else {
      std::vector<fanread_bytes> values(k.size());
      detail::buffer room;
      detail::check(detail::get_batch(raw(), k.data(), k.size(), values.data(), &room, nullptr));
      for (std::size_t i = 0; i < k.size(); i++)
        if (values[i].data) found[i].emplace(detail::view_of(values[i]));
    }
    return found;
  }

  /** The same without an allocation for the answers: absent keys get 0, and `found` 1 or 0 if it is
   * there. Returns how many were found. */
  template <class Keys, class V = Value, class = std::enable_if_t<std::is_same_v<V, std::uint64_t>>>
  std::size_t get_batch(const Keys &keys, span<std::uint64_t> values,
                        span<std::uint8_t> found = {}) const {
    const detail::many<Key> k(keys);
    detail::same_size(k.size(), values.size());
    if (!found.empty()) detail::same_size(k.size(), found.size());
    std::size_t hits = 0;
    detail::check(detail::get_batch(raw(), k.data(), k.size(), values.data(),
                                    found.empty() ? nullptr : found.data(), &hits));
    return hits;
  }

  /** Stores 1 for each key that is there and 0 for the others, and returns how many are. */
  template <class Keys>
  std::size_t contains_batch(const Keys &keys, span<std::uint8_t> found) const {
    const detail::many<Key> k(keys);
    detail::same_size(k.size(), found.size());
    std::size_t hits = 0;
    detail::check(detail::contains_batch(raw(), k.data(), k.size(), found.data(), &hits));
    return hits;
  }

  /** Maps each key to the value at the same place. */
  template <class Keys, class Values>
  void insert_batch(const Keys &keys, const Values &values) {
    const detail::many<Key> k(keys);
    const detail::many<Value> v(values);
    detail::same_size(k.size(), v.size());
    detail::check(detail::insert_batch(raw(), k.data(), v.data(), k.size()));
  }

  std::size_t size() const {
    std::size_t len = 0;
    detail::check(fanread_map_len(raw(), &len));
    return len;
  }
  bool empty() const { return size() == 0; }
  void clear() { detail::check(fanread_map_clear(raw())); }

  fanread_memory memory_usage() const {
    fanread_memory usage;
    detail::check(fanread_map_memory_usage(raw(), &usage));
    return usage;
  }

  /** The name of the map's kind. */
  std::string_view kind_name() const {
    std::int32_t of = 0;
    detail::check(fanread_map_kind(raw(), &of, nullptr));
    return fanread_kind_name(of);
  }

  /** The handle, for functions of C. */
  const fanread_map *raw() const noexcept { return handle_.get(); }

  /** The map for lookups of this thread under a pin, the fastest ones; see fanread_guard_map. It is valid as long as the pin. */
  class held {
   public:
    std::optional<Value> get(key_view key) const {
      return answer([&](out *value) { return detail::get(raw_, key, value); });
    }
    bool contains(key_view key) const {
      return detail::check(detail::contains(raw_, key)) == FANREAD_OK;
    }
    const fanread_map *raw() const noexcept { return raw_; }

   private:
    friend class map;
    explicit held(const fanread_map *raw) : raw_(raw) {}
    const fanread_map *raw_;
  };
  held under(const pin &pin) const {
    const fanread_map *under = nullptr;
    detail::check(fanread_guard_map(pin.raw(), raw(), &under));
    return held(under);
  }

  /** A cursor before the first entry. */
  cursor_type make_cursor() const { return cursor_type(raw()); }

  /** Goes over entries in order, once. Copies share their place. */
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::input_iterator_tag;
    using value_type = entry_view<Key, Value>;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = value_type;

    iterator() = default;

    /** Strings are views, valid until the iterator moves. */
    value_type operator*() const { return {cursor_->key(), cursor_->value()}; }
    iterator &operator++() {
      settle(cursor_->next());
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator &a, const iterator &b) { return a.cursor_ == b.cursor_; }
    friend bool operator!=(const iterator &a, const iterator &b) { return !(a == b); }

   private:
    friend class map;
    iterator(cursor_type cursor, std::optional<Key> end)
        : cursor_(std::make_shared<cursor_type>(std::move(cursor))), end_(std::move(end)) {}

    /* Behind the last entry it is the iterator that ends all ranges. */
    void settle(bool is_at_entry) {
      if (!is_at_entry || (end_ && !(cursor_->key() < key_view(*end_)))) cursor_.reset();
    }

    std::shared_ptr<cursor_type> cursor_;
    std::optional<Key> end_;
  };

  /** Entries from a key on, up to but without another. */
  class range_type {
   public:
    iterator begin() const {
      iterator first(map_->make_cursor(), end_);
      first.settle(start_ ? first.cursor_->seek(*start_) : first.cursor_->seek_first());
      return first;
    }
    iterator end() const { return {}; }

   private:
    friend class map;
    range_type(const map *map, std::optional<Key> start, std::optional<Key> end)
        : map_(map), start_(std::move(start)), end_(std::move(end)) {}

    const map *map_;
    std::optional<Key> start_, end_;
  };

  iterator begin() const { return range_type(this, {}, {}).begin(); }
  iterator end() const { return {}; }
  range_type from(key_view start) const { return {this, Key(start), {}}; }
  range_type range(key_view start, key_view end) const { return {this, Key(start), Key(end)}; }

 private:
  using owned = detail::handle<fanread_map, fanread_map_free>;
  static constexpr fanread_values values = has_numbers ? FANREAD_U64_VALUES : FANREAD_BYTES_VALUES;

  explicit map(owned handle) : handle_(std::move(handle)) {}

  template <class Call>
  static std::optional<Value> answer(Call call) {
    out place{};
    if (detail::check(call(&place)) != FANREAD_OK) return std::nullopt;
    return detail::form<Value>::take(place);
  }

  template <class Call>
  static std::optional<Value> displaced(Call call) {
    out place{};
    if (detail::check(call(&place)) != FANREAD_REPLACED) return std::nullopt;
    return detail::form<Value>::take(place);
  }

  std::optional<entry_type> find(fanread_place place, key_view key) const {
    typename detail::form<Key>::out found_key{};
    out value{};
    if (detail::check(detail::find(raw(), place, key, &found_key, &value)) != FANREAD_OK)
      return std::nullopt;
    return entry_type{detail::form<Key>::take(found_key), detail::form<Value>::take(value)};
  }

  owned handle_;
};

/** A table that is to be built; see fanread_table_builder. */
class table_builder {
 public:
  explicit table_builder(const fanread_table_options *options = nullptr)
      : handle_(detail::made<owned>(
            [&](auto **raw) { return fanread_table_builder_new(options, raw); })) {}

  void insert(std::string_view key, std::string_view value) {
    detail::check(fanread_table_builder_insert(handle_.get(), key.data(), key.size(), value.data(),
                                               value.size()));
  }

  std::size_t size() const {
    std::size_t len = 0;
    detail::check(fanread_table_builder_len(handle_.get(), &len));
    return len;
  }

  void finish(const std::string &path) {
    detail::check(fanread_table_builder_finish(handle_.get(), path.c_str()));
  }

 private:
  using owned = detail::handle<fanread_table_builder, fanread_table_builder_free>;
  owned handle_;
};

/** A table file; see fanread_table. The views that it returns are valid as long as it lives. */
class table {
 public:
  explicit table(const std::string &path)
      : handle_(detail::made<owned>(
            [&](auto **raw) { return fanread_table_open(path.c_str(), raw); })) {}

  fanread_table_stats stats() const {
    fanread_table_stats stats;
    detail::check(fanread_table_get_stats(handle_.get(), &stats));
    return stats;
  }

  std::optional<std::string_view> get(std::string_view key) const {
    fanread_bytes value;
    const fanread_status status = fanread_table_get(handle_.get(), key.data(), key.size(), &value);
    if (detail::check(status) != FANREAD_OK) return std::nullopt;
    return detail::view_of(value);
  }

  template <class Keys>
  std::vector<std::optional<std::string_view>> get_batch(const Keys &keys) const {
    const detail::many<std::string> k(keys);
    std::vector<fanread_bytes> values(k.size());
    detail::check(
        fanread_table_get_batch(handle_.get(), k.data(), k.size(), values.data(), nullptr));
    std::vector<std::optional<std::string_view>> found(k.size());
    for (std::size_t i = 0; i < k.size(); i++)
      if (values[i].data) found[i] = detail::view_of(values[i]);
    return found;
  }

  /** Calls `visit(key, value)` for each entry in order; false from it ends the scan, and so does an exception. */
  template <class Visit>
  void scan(Visit &&visit, std::optional<std::string_view> from = {},
            std::optional<std::string_view> to = {}) const {
    detail::visitor<std::remove_reference_t<Visit>> visitor{visit};
    const auto start = edge(from), end = edge(to);
    detail::done(visitor, fanread_table_scan(handle_.get(), start.data, start.len, end.data, end.len,
                                    &visitor.strings, &visitor));
  }

  /** Throws if the table is damaged. */
  void check() const { detail::check(fanread_table_check(handle_.get())); }

 private:
  using owned = detail::handle<fanread_table, fanread_table_free>;

  static fanread_bytes edge(std::optional<std::string_view> key) noexcept {
    if (!key) return {nullptr, 0};
    return detail::bytes_of(key->data() ? *key : std::string_view(""));
  }

  owned handle_;
};

/** A map of byte strings in a file or in memory; see fanread_store. */
class store {
 public:
  static store in_memory(const fanread_store_options *options = nullptr) {
    return store(detail::made<owned>(
        [&](auto **raw) { return fanread_store_in_memory(options, raw); }));
  }
  static store create(const std::string &path, const fanread_store_options *options = nullptr) {
    return store(detail::made<owned>(
        [&](auto **raw) { return fanread_store_create(path.c_str(), options, raw); }));
  }
  static store open(const std::string &path) {
    return store(
        detail::made<owned>([&](auto **raw) { return fanread_store_open(path.c_str(), raw); }));
  }

  std::optional<std::string> get(std::string_view key) const {
    detail::buffer value;
    const fanread_status status =
        fanread_store_get(handle_.get(), key.data(), key.size(), value.raw());
    if (detail::check(status) != FANREAD_OK) return std::nullopt;
    return std::string(value.view());
  }

  /** Maps a key to a value, and returns the value that is replaced. */
  std::optional<std::string> insert(std::string_view key, std::string_view value) {
    detail::buffer old;
    const fanread_status status = fanread_store_insert(handle_.get(), key.data(), key.size(),
                                                       value.data(), value.size(), old.raw());
    if (detail::check(status) != FANREAD_REPLACED) return std::nullopt;
    return std::string(old.view());
  }

  std::optional<std::string> remove(std::string_view key) {
    detail::buffer old;
    const fanread_status status =
        fanread_store_remove(handle_.get(), key.data(), key.size(), old.raw());
    if (detail::check(status) != FANREAD_OK) return std::nullopt;
    return std::string(old.view());
  }

  template <class Keys>
  std::vector<std::optional<std::string>> get_batch(const Keys &keys) const {
    const detail::many<std::string> k(keys);
    std::vector<fanread_bytes> values(k.size());
    detail::buffer room;
    detail::check(fanread_store_get_batch(handle_.get(), k.data(), k.size(), values.data(),
                                          room.raw(), nullptr));
    std::vector<std::optional<std::string>> found(k.size());
    for (std::size_t i = 0; i < k.size(); i++)
      if (values[i].data) found[i].emplace(detail::view_of(values[i]));
    return found;
  }

  /** Calls `visit(key, value)` for each entry, in no order; false from it ends the scan, and so does an exception. */
  template <class Visit>
  void scan(Visit &&visit) const {
    detail::visitor<std::remove_reference_t<Visit>> visitor{visit};
    detail::done(visitor, fanread_store_scan(handle_.get(), &visitor.strings, &visitor));
  }

  std::size_t size() const {
    std::size_t len = 0;
    detail::check(fanread_store_len(handle_.get(), &len));
    return len;
  }
  void sync() { detail::check(fanread_store_sync(handle_.get())); }
  /** Throws if the store is damaged. */
  void check() const { detail::check(fanread_store_check(handle_.get())); }
  fanread_durability durability() const {
    std::int32_t level = 0;
    detail::check(fanread_store_durability(handle_.get(), &level));
    return static_cast<fanread_durability>(level);
  }

 private:
  using owned = detail::handle<fanread_store, fanread_store_free>;
  explicit store(owned handle) : handle_(std::move(handle)) {}
  owned handle_;
};

/** A map of numbers in a file or in memory; see fanread_u64_store. */
class u64_store {
 public:
  static u64_store in_memory(const fanread_store_options *options = nullptr) {
    return u64_store(detail::made<owned>(
        [&](auto **raw) { return fanread_u64_store_in_memory(options, raw); }));
  }
  static u64_store create(const std::string &path, const fanread_store_options *options = nullptr) {
    return u64_store(detail::made<owned>(
        [&](auto **raw) { return fanread_u64_store_create(path.c_str(), options, raw); }));
  }
  static u64_store open(const std::string &path) {
    return u64_store(
        detail::made<owned>([&](auto **raw) { return fanread_u64_store_open(path.c_str(), raw); }));
  }

  std::optional<std::uint64_t> get(std::uint64_t key) const {
    std::uint64_t value = 0;
    if (detail::check(fanread_u64_store_get(handle_.get(), key, &value)) != FANREAD_OK)
      return std::nullopt;
    return value;
  }

  /** Maps a key to a value, and returns the value that is replaced. */
  std::optional<std::uint64_t> insert(std::uint64_t key, std::uint64_t value) {
    std::uint64_t old = 0;
    if (detail::check(fanread_u64_store_insert(handle_.get(), key, value, &old)) !=
        FANREAD_REPLACED)
      return std::nullopt;
    return old;
  }

  std::optional<std::uint64_t> remove(std::uint64_t key) {
    std::uint64_t old = 0;
    if (detail::check(fanread_u64_store_remove(handle_.get(), key, &old)) != FANREAD_OK)
      return std::nullopt;
    return old;
  }

  /** Looks for many keys at once: absent ones get 0, and `found` 1 or 0 if it is there. Returns how many were found. */
  std::size_t get_batch(span<const std::uint64_t> keys, span<std::uint64_t> values,
                        span<std::uint8_t> found = {}) const {
    detail::same_size(keys.size(), values.size());
    if (!found.empty()) detail::same_size(keys.size(), found.size());
    std::size_t hits = 0;
    detail::check(fanread_u64_store_get_batch(handle_.get(), keys.data(), keys.size(),
                                              values.data(), found.empty() ? nullptr : found.data(),
                                              &hits));
    return hits;
  }

  /** Calls `visit(key, value)` for each entry, in no order; false from it ends the scan, and so does an exception. */
  template <class Visit>
  void scan(Visit &&visit) const {
    detail::visitor<std::remove_reference_t<Visit>> visitor{visit};
    detail::done(visitor, fanread_u64_store_scan(handle_.get(), &visitor.numbers, &visitor));
  }

  std::size_t size() const {
    std::size_t len = 0;
    detail::check(fanread_u64_store_len(handle_.get(), &len));
    return len;
  }
  void sync() { detail::check(fanread_u64_store_sync(handle_.get())); }
  /** Throws if the store is damaged. */
  void check() const { detail::check(fanread_u64_store_check(handle_.get())); }
  fanread_durability durability() const {
    std::int32_t level = 0;
    detail::check(fanread_u64_store_durability(handle_.get(), &level));
    return static_cast<fanread_durability>(level);
  }

 private:
  using owned = detail::handle<fanread_u64_store, fanread_u64_store_free>;
  explicit u64_store(owned handle) : handle_(std::move(handle)) {}
  owned handle_;
};

/** The kind of a name, such as "wormhole". */
inline kind kind_of_name(const std::string &name) {
  std::int32_t of = 0;
  detail::check(fanread_kind_of_name(name.c_str(), &of));
  return static_cast<kind>(of);
}

/**
 * How many bytes of the whole process are on huge pages, if the system says it. The kernel walks all page tables of the process for it: some
 * 50 ms for each GB that lies on small pages.
 */
inline std::optional<std::uint64_t> process_huge_page_bytes() {
  std::uint64_t bytes = 0;
  detail::check(fanread_process_huge_page_bytes(&bytes));
  return bytes == UINT64_MAX ? std::nullopt : std::optional(bytes);
}

}  // namespace fanread

#endif
