// Lets RocksDB write table files and judge ours; `rocksdb.rs` compiles and runs it.
//
//   rocks sst OUT RATIO DEPTH BLOCK IDENTITY MODULO      an SstFileWriter's file (last level)
//   rocks flush OUT RATIO DEPTH BLOCK IDENTITY MODULO    a memtable's file (sequences, deletions)
//   rocks import FILE LARGEST_SEQUENCE                   CreateColumnFamilyWithImport, then every question
//   rocks ingest FILE                                    IngestExternalFile, then every question
//   rocks read FILE                                      SstFileReader, forward and by Seek
//   rocks build OUT COUNT                                an SstFileWriter's file of the entries of benches/rocksdb.rs
//   rocks serve FILE COUNT QUERIES                       IngestExternalFile, then times what standard input asks for
//
// For the first five, entries come from standard input: two u32 with the lengths of keys and values, then for each entry a byte (0 absent,
// 1 value, 2 deletion), the key and, for a value, the value. Exit status 0 if all is as it should be.

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fs = std::filesystem;
using rocksdb::Slice;
using rocksdb::Status;

struct Entry {
  int kind;
  std::string key, value;
};

[[noreturn]] static void fail(const std::string& why) {
  std::fprintf(stderr, "rocks: %s\n", why.c_str());
  std::exit(1);
}

static void must(const Status& status, const char* what) {
  if (!status.ok()) fail(std::string(what) + ": " + status.ToString());
}

static std::vector<Entry> read_entries() {
  std::string all((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  if (all.size() < 8) fail("no entries");
  uint32_t key_bytes, value_bytes;
  std::memcpy(&key_bytes, all.data(), 4);
  std::memcpy(&value_bytes, all.data() + 4, 4);
  std::vector<Entry> entries;
  for (size_t at = 8; at < all.size();) {
    Entry entry{all[at], all.substr(at + 1, key_bytes), {}};
    at += 1 + key_bytes;
    if (entry.kind == 1) {
      entry.value = all.substr(at, value_bytes);
      at += value_bytes;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

static rocksdb::Options options(const rocksdb::CuckooTableOptions& cuckoo) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_mmap_reads = true;
  options.compression = rocksdb::kNoCompression;
  options.disable_auto_compactions = true;
  options.write_buffer_size = size_t(1) << 30;
  options.table_factory.reset(rocksdb::NewCuckooTableFactory(cuckoo));
  return options;
}

static rocksdb::Options options() { return options(rocksdb::CuckooTableOptions()); }

static rocksdb::CuckooTableOptions cuckoo(char** args) {
  rocksdb::CuckooTableOptions cuckoo;
  cuckoo.hash_table_ratio = std::atof(args[0]);
  cuckoo.max_search_depth = uint32_t(std::atol(args[1]));
  cuckoo.cuckoo_block_size = uint32_t(std::atol(args[2]));
  cuckoo.identity_as_first_hash = std::atoi(args[3]) != 0;
  cuckoo.use_module_hash = std::atoi(args[4]) != 0;
  return cuckoo;
}

// A folder that is gone when the program ends well.
struct Folder {
  fs::path path;
  explicit Folder(const fs::path& beside) : path(beside.string() + ".db") {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
};

static void write_sst(const char* out, const rocksdb::CuckooTableOptions& cuckoo) {
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options(cuckoo));
  must(writer.Open(out), "open");
  for (const Entry& entry : read_entries()) must(writer.Put(entry.key, entry.value), "put");
  must(writer.Finish(), "finish");
}

static void flush(const char* out, const rocksdb::CuckooTableOptions& cuckoo) {
  Folder folder(out);
  rocksdb::DB* opened;
  must(rocksdb::DB::Open(options(cuckoo), folder.path.string(), &opened), "open");
  std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  for (const Entry& entry : read_entries()) {
    if (entry.kind == 1) must(db->Put(write, entry.key, entry.value), "put");
    if (entry.kind == 2) must(db->Delete(write, entry.key), "delete");
  }
  must(db->Flush(rocksdb::FlushOptions()), "flush");
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  if (files.size() != 1) fail("not one file");
  fs::copy_file(files[0].db_path + files[0].name, out, fs::copy_options::overwrite_existing);
}

// Every key is found or missed as it should be, and iteration has all of them in order.
static void ask_all(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                    const std::vector<Entry>& entries, const char* when) {
  std::map<std::string, std::string> present;
  std::string found;
  for (const Entry& entry : entries) {
    Status status = db->Get(rocksdb::ReadOptions(), family, entry.key, &found);
    if (entry.kind == 1) {
      must(status, when);
      if (found != entry.value) fail(std::string(when) + ": another value");
      present[entry.key] = entry.value;
    } else if (!status.IsNotFound()) {
      fail(std::string(when) + ": found what is not there: " + status.ToString());
    }
  }
  std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions(), family));
  auto expected = present.begin();
  for (at->SeekToFirst(); at->Valid(); at->Next(), ++expected) {
    if (expected == present.end() || at->key() != expected->first || at->value() != expected->second)
      fail(std::string(when) + ": iteration differs");
  }
  must(at->status(), when);
  if (expected != present.end()) fail(std::string(when) + ": iteration ends early");
}

static void import(const char* file, uint64_t largest_sequence) {
  std::vector<Entry> entries = read_entries();
  Folder folder(file);
  rocksdb::DB* opened;
  must(rocksdb::DB::Open(options(), folder.path.string(), &opened), "open");
  std::unique_ptr<rocksdb::DB> db(opened);
  fs::path from = folder.path / "from";
  fs::create_directories(from);
  fs::copy_file(file, from / "t.sst");
  std::string smallest, largest;
  for (const Entry& entry : entries) {
    if (entry.kind == 0) continue;
    if (smallest.empty() || entry.key < smallest) smallest = entry.key;
    if (entry.key > largest) largest = entry.key;
  }
  rocksdb::LiveFileMetaData file_data;
  file_data.name = "/t.sst";
  file_data.relative_filename = "t.sst";
  file_data.db_path = file_data.directory = from.string();
  file_data.size = fs::file_size(file);
  file_data.level = 0;
  file_data.smallest_seqno = 0;
  file_data.largest_seqno = largest_sequence;
  file_data.smallestkey = smallest;
  file_data.largestkey = largest;
  rocksdb::ExportImportFilesMetaData metadata;
  metadata.db_comparator_name = rocksdb::BytewiseComparator()->Name();
  metadata.files.push_back(file_data);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  must(db->CreateColumnFamilyWithImport(options(), "imported", rocksdb::ImportColumnFamilyOptions(),
                                        metadata, &family),
       "import");
  ask_all(db.get(), family, entries, "imported");
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  must(db->CompactRange(compact, family, nullptr, nullptr), "compact");
  ask_all(db.get(), family, entries, "compacted");
  must(db->DestroyColumnFamilyHandle(family), "close");
}

static std::unique_ptr<rocksdb::DB> ingested(const char* file, const fs::path& folder) {
  rocksdb::DB* opened;
  rocksdb::Options opts = options();
  opts.max_open_files = -1;
  must(rocksdb::DB::Open(opts, folder.string(), &opened), "open");
  std::unique_ptr<rocksdb::DB> db(opened);
  must(db->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions()), "ingest");
  return db;
}

static void ingest(const char* file) {
  std::vector<Entry> entries = read_entries();
  Folder folder(file);
  std::unique_ptr<rocksdb::DB> db = ingested(file, folder.path);
  ask_all(db.get(), db->DefaultColumnFamily(), entries, "ingested");
}

// What benches/rocksdb.rs has under the same names.
static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

static void put_key(char* key, uint64_t index, uint64_t count) {
  uint64_t gap = UINT64_MAX / count, number = index * gap + mixed(index) % gap;
  for (int at = 0; at < 8; at++) key[at] = char(number >> (56 - 8 * at));
}

static uint32_t value_of(uint64_t index) { return uint32_t(mixed(~index)); }

static double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

static void build(const char* out, uint64_t count) {
  auto start = std::chrono::steady_clock::now();
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options());
  must(writer.Open(out), "open");
  char key[8];
  for (uint64_t index = 0; index < count; index++) {
    put_key(key, index, count);
    uint32_t value = value_of(index);
    must(writer.Put(Slice(key, 8), Slice(reinterpret_cast<char*>(&value), 4)), "put");
  }
  must(writer.Finish(), "finish");
  std::printf("%.3f\n", seconds_since(start));
}

// Answers each byte of standard input by a line: how many seconds all queries took. g: Get, m: MultiGet of 32.
static void serve(const char* file, uint64_t count, uint64_t queries) {
  Folder folder(file);
  std::unique_ptr<rocksdb::DB> db = ingested(file, folder.path);
  std::vector<char> keys(queries * 8);
  uint64_t sum = 0;
  for (uint64_t query = 0; query < queries; query++) {
    uint64_t index = mixed(query) % count;
    put_key(&keys[query * 8], index, count);
    sum += value_of(index);
  }
  auto add = [&sum](const rocksdb::PinnableSlice& found) {
    uint32_t value;
    if (found.size() != sizeof value) fail("a value of another length");
    std::memcpy(&value, found.data(), sizeof value);
    sum -= value;
  };
  uint64_t expected = sum;
  rocksdb::ReadOptions read;
  rocksdb::ColumnFamilyHandle* family = db->DefaultColumnFamily();
  for (int command; (command = std::getchar()) != EOF;) {
    sum = expected;
    auto start = std::chrono::steady_clock::now();
    if (command == 'g') {
      rocksdb::PinnableSlice found;
      for (uint64_t query = 0; query < queries; query++) {
        found.Reset();
        must(db->Get(read, family, Slice(&keys[query * 8], 8), &found), "get");
        add(found);
      }
    } else {
      const size_t width = 32;
      std::vector<Slice> asked(width);
      std::vector<rocksdb::PinnableSlice> found(width);
      std::vector<Status> statuses(width);
      for (uint64_t query = 0; query + width <= queries; query += width) {
        for (size_t at = 0; at < width; at++) {
          asked[at] = Slice(&keys[(query + at) * 8], 8);
          found[at].Reset();
        }
        db->MultiGet(read, family, width, asked.data(), found.data(), statuses.data());
        for (size_t at = 0; at < width; at++) {
          must(statuses[at], "multiget");
          add(found[at]);
        }
      }
      for (uint64_t query = queries - queries % width; query < queries; query++)
        sum -= value_of(mixed(query) % count);
    }
    double took = seconds_since(start);
    if (sum != 0) fail("wrong values");
    std::printf("%.6f\n", took);
    std::fflush(stdout);
  }
}

static void read(const char* file) {
  std::map<std::string, std::string> present;
  for (const Entry& entry : read_entries())
    if (entry.kind == 1) present[entry.key] = entry.value;
  rocksdb::SstFileReader reader(options());
  must(reader.Open(file), "open");
  if (reader.GetTableProperties()->num_entries != present.size()) fail("another number of entries");
  std::unique_ptr<rocksdb::Iterator> at(reader.NewIterator(rocksdb::ReadOptions()));
  auto expected = present.begin();
  for (at->SeekToFirst(); at->Valid(); at->Next(), ++expected) {
    if (expected == present.end() || at->key() != expected->first || at->value() != expected->second)
      fail("iteration differs");
  }
  must(at->status(), "iterate");
  if (expected != present.end()) fail("iteration ends early");
  size_t step = present.size() / 100 + 1, number = 0;
  for (const auto& [key, value] : present) {
    if (number++ % step != 0) continue;
    at->Seek(key);
    if (!at->Valid() || at->key() != key || at->value() != value) fail("a seek differs");
  }
}

int main(int count, char** args) {
  std::string command = count > 2 ? args[1] : "";
  if (command == "sst" && count == 8) write_sst(args[2], cuckoo(args + 3));
  else if (command == "flush" && count == 8) flush(args[2], cuckoo(args + 3));
  else if (command == "import" && count == 4) import(args[2], std::strtoull(args[3], nullptr, 10));
  else if (command == "ingest" && count == 3) ingest(args[2]);
  else if (command == "build" && count == 4) build(args[2], std::strtoull(args[3], nullptr, 10));
  else if (command == "serve" && count == 5)
    serve(args[2], std::strtoull(args[3], nullptr, 10), std::strtoull(args[4], nullptr, 10));
  else if (command == "read" && count == 3) read(args[2]);
  else fail("misuse; see the top of rocks.cc");
  return 0;
}
