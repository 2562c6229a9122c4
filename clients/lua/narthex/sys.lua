--- System calls and checksums for segments, through LuaJIT's FFI: Linux with 64 bits, little-endian.

local ffi = require("ffi")
local bit = require("bit")
local band, bxor, rshift = bit.band, bit.bxor, bit.rshift

-- Names of our own, so that other libraries' declarations do not collide with these; once, however often this is loaded.
local DECLARATIONS = [[
int narthex_open(const char *path, int flags, ...) __asm__("open");
int narthex_close(int fd) __asm__("close");
long narthex_pread(int fd, void *out, size_t len, int64_t at) __asm__("pread");
long narthex_write(int fd, const void *bytes, size_t len) __asm__("write");
int64_t narthex_lseek(int fd, int64_t at, int whence) __asm__("lseek");
int narthex_ftruncate(int fd, int64_t len) __asm__("ftruncate");
int narthex_fallocate(int fd, int64_t at, int64_t len) __asm__("posix_fallocate");
void *narthex_mmap(void *at, size_t len, int prot, int flags, int fd, int64_t offset) __asm__("mmap");
int narthex_munmap(void *at, size_t len) __asm__("munmap");
int narthex_flock(int fd, int how) __asm__("flock");
int narthex_rename(const char *from, const char *to) __asm__("rename");
int narthex_unlink(const char *path) __asm__("unlink");
int narthex_mkdir(const char *path, unsigned int mode) __asm__("mkdir");
int narthex_chmod(const char *path, unsigned int mode) __asm__("chmod");
int narthex_getpid(void) __asm__("getpid");
long narthex_readlink(const char *path, char *out, size_t len) __asm__("readlink");
char *narthex_strerror(int error) __asm__("strerror");
int narthex_clock(int clock, int64_t *time) __asm__("clock_gettime");
void *narthex_opendir(const char *path) __asm__("opendir");
struct narthex_entry { uint64_t inode; int64_t offset; uint16_t length; uint8_t type; char name[256]; };
struct narthex_entry *narthex_readdir(void *dir) __asm__("readdir");
int narthex_closedir(void *dir) __asm__("closedir");
]]
if not pcall(ffi.typeof, "struct narthex_entry") then
  ffi.cdef(DECLARATIONS)
end

local C = ffi.C
local M = {}

M.O_RDONLY, M.O_WRONLY, M.O_RDWR = 0, 1, 2
M.O_CREAT, M.O_EXCL, M.O_TRUNC, M.O_NONBLOCK, M.O_CLOEXEC = 64, 128, 512, 2048, 524288
M.O_NOFOLLOW = ffi.arch == "arm64" and 32768 or 131072
M.LOCK_SH, M.LOCK_EX, M.LOCK_NB, M.LOCK_UN = 1, 2, 4, 8
local PROT_READ_WRITE, MAP_SHARED, MAP_PRIVATE_ANONYMOUS_NORESERVE = 3, 1, 2 + 32 + 16384
local EINTR, EEXIST = 4, 17
M.SEEK_END = 2

M.is_supported = ffi.abi("64bit") and ffi.abi("le") and ffi.os == "Linux"

--- Returns what an error number means.
function M.message(errno)
  return ffi.string(C.narthex_strerror(errno))
end

--- Opens a file; returns its descriptor, or nil and why not.
function M.open(path, flags, mode)
  local fd = C.narthex_open(path, bit.bor(flags, M.O_CLOEXEC), ffi.cast("int", mode or 0))
  if fd < 0 then
    return nil, M.message(ffi.errno())
  end
  return fd
end

function M.close(fd)
  C.narthex_close(fd)
end

--- Copies bytes of a file; returns whether all were there.
function M.pread(fd, out, len, at)
  local done = 0
  while done < len do
    local got = tonumber(C.narthex_pread(fd, out + done, len - done, at + done))
    if got <= 0 then
      return false
    end
    done = done + got
  end
  return true
end

--- Writes all bytes; returns true, or nil and why not.
function M.write(fd, bytes, len)
  local done = 0
  while done < len do
    local put = tonumber(C.narthex_write(fd, bytes + done, len - done))
    if put <= 0 then
      return nil, M.message(ffi.errno())
    end
    done = done + put
  end
  return true
end

function M.length(fd)
  return tonumber(C.narthex_lseek(fd, 0, M.SEEK_END))
end

--- Locks a file if nobody else has; returns whether it did.
function M.flock(fd, how)
  return C.narthex_flock(fd, bit.bor(how, M.LOCK_NB)) == 0
end

function M.truncate(fd, len)
  if C.narthex_ftruncate(fd, len) ~= 0 then
    return nil, M.message(ffi.errno())
  end
  return true
end

--- Allocates a part of a file: a full file system is an error here, and never a signal when memory is written.
function M.allocate(fd, at, len)
  local errno
  repeat
    errno = C.narthex_fallocate(fd, at, len)
  until errno ~= EINTR
  if errno ~= 0 then
    return nil, M.message(errno)
  end
  return true
end

--- Maps a file, or memory of this process if there is no descriptor; nil and why not on failure.
function M.map(fd, len)
  local flags = fd and MAP_SHARED or MAP_PRIVATE_ANONYMOUS_NORESERVE
  local at = C.narthex_mmap(nil, len, PROT_READ_WRITE, flags, fd or -1, 0)
  if ffi.cast("intptr_t", at) == -1 then
    return nil, M.message(ffi.errno())
  end
  return ffi.cast("char *", at)
end

function M.unmap(at, len)
  C.narthex_munmap(at, len)
end

function M.rename(from, to)
  if C.narthex_rename(from, to) ~= 0 then
    return nil, M.message(ffi.errno())
  end
  return true
end

function M.unlink(path)
  return C.narthex_unlink(path) == 0
end

--- Creates a directory with this mode, whatever the umask; returns nil and why not unless it exists afterwards.
function M.mkdir(path, mode)
  if C.narthex_mkdir(path, mode) == 0 then
    C.narthex_chmod(path, mode)
    return true
  end
  local errno = ffi.errno()
  if errno == EEXIST then
    return true
  end
  return nil, M.message(errno)
end

--- Returns the names in a directory that begin and end like this.
function M.names(path, prefix, suffix)
  local dir = C.narthex_opendir(path)
  local found = {}
  if dir == nil then
    return found
  end
  while true do
    local entry = C.narthex_readdir(dir)
    if entry == nil then
      break
    end
    local name = ffi.string(entry.name)
    if name:sub(1, #prefix) == prefix and name:sub(-#suffix) == suffix then
      found[#found + 1] = name
    end
  end
  C.narthex_closedir(dir)
  table.sort(found)
  return found
end

local clock = ffi.new("int64_t[2]")

--- Milliseconds since the Unix epoch.
function M.now_ms()
  C.narthex_clock(0, clock)
  return tonumber(clock[0]) * 1000 + math.floor(tonumber(clock[1]) / 1000000)
end

--- Milliseconds of a clock that never jumps, with their fraction.
function M.monotonic_ms()
  C.narthex_clock(1, clock)
  return tonumber(clock[0]) * 1000 + tonumber(clock[1]) / 1000000
end

local function contents(path)
  local file = io.open(path, "rb")
  local text = file and file:read("*a") or ""
  if file then
    file:close()
  end
  return text
end

--- Returns what identifies this process: number, start, PID namespace and boot (16 bytes).
function M.process()
  local fields = contents("/proc/self/stat"):match(".*%)%s+(.*)") or ""
  local number, start = 2, 0
  for field in fields:gmatch("%S+") do
    number = number + 1
    if number == 22 then
      start = tonumber(field)
      break
    end
  end
  local link = ffi.new("char[64]")
  local len = tonumber(C.narthex_readlink("/proc/self/ns/pid", link, 63))
  local namespace = len > 0 and ffi.string(link, len):match("%d+") or "0"
  local boot = contents("/proc/sys/kernel/random/boot_id"):gsub("%X", "")
  boot = boot:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
  return {
    pid = C.narthex_getpid(),
    start = start,
    namespace = tonumber(namespace),
    boot = (boot .. ("\0"):rep(16)):sub(1, 16),
  }
end

--- Fills 8 bytes at random; returns whether it could.
function M.random(out)
  local fd = M.open("/dev/urandom", M.O_RDONLY)
  if not fd then
    return false
  end
  local got = C.narthex_pread(fd, out, 8, 0)
  M.close(fd)
  return got == 8
end

local crcs = {}
for byte = 0, 255 do
  local sum = byte
  for _ = 1, 8 do
    sum = bxor(rshift(sum, 1), band(sum, 1) == 1 and 0x82f63b78 or 0)
  end
  crcs[byte] = sum
end

--- Continues a CRC-32C over bytes; the first is given -1, and the last is inverted by the caller.
function M.crc(sum, bytes, len)
  for at = 0, len - 1 do
    sum = bxor(rshift(sum, 8), crcs[band(bxor(sum, bytes[at]), 255)])
  end
  return sum
end

--- Returns the checksum of `len` bytes, of which those from `from` to before `to` have the checksum's place.
function M.checksum(bytes, from, to, len)
  return bit.bnot(M.crc(M.crc(-1, bytes, from), bytes + to, len - to))
end

return M
