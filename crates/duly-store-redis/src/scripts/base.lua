-- Defines the common base of every script: names of keys, numbers, the list of writes.
--
-- Rules:
-- 1. All reads come before the first write, so a script that fails has changed nothing.
-- 2. Writes are collected in W and executed by flush().
-- 3. Times are whole milliseconds below 2^53.
-- 4. Strings whose order counts are compared byte by byte: Lua's own `<` depends on the locale.
local call = redis.call
local format, match = string.format, string.match
local K = string.sub(KEYS[1], 1, -4)
local now = clock()
-- The clock as text. Numbers are passed to commands as text: a call formats a Lua number as a fraction.
local now_text = string.format('%d', now)
local NUL = string.char(0)

local W = {}
local function write(...)
  W[#W + 1] = {...}
end
-- Collects a write of a command that takes any number of members: all writes to one key become one command.
local gathered = {}
local function gather(command, key, ...)
  local keys = gathered[command] or {}
  gathered[command] = keys
  local one = keys[key]
  if not one then
    one = { command, key }
    keys[key] = one
    W[#W + 1] = one
  end
  for i = 1, select('#', ...) do one[#one + 1] = (select(i, ...)) end
end

-- Fails the script unless this shard holds the marker of the calling deployment. A shard that was emptied, or
-- belongs to another deployment, does not. There a missing key proves nothing, and nothing may be created. Called
-- where something is missing, or before something is created.
local function expect_marker()
  local id = call('HGET', K .. 'marker', 'id')
  if id == DEPLOYMENT then return end
  error({ err = id and 'FOREIGN ' .. id or 'UNMARKED' })
end

-- Returns the number of a namespace; nil if this shard has no namespace of this name.
local function num_of(name)
  local num = call('HGET', K .. 'nn', name)
  if not num then expect_marker() end
  return num
end

-- Counts a call that writes nothing else. WAIT waits for the writes of its connection, so every such call writes
-- something.
local function touch_seq()
  if call('EXISTS', KEYS[1]) == 0 then expect_marker() end
  call('INCR', KEYS[1])
end
-- Returns the reply of a call that changes nothing. Collected writes are not executed.
local function unchanged(...)
  touch_seq()
  return { ... }
end
local settle_sets
local function flush()
  if settle_sets then settle_sets() end
  if #W == 0 then touch_seq() end
  for _, command in ipairs(W) do
    call(unpack(command))
  end
end

-- Writes fields of a hash that has `size` fields. Redis packs up to 512 short fields as a listpack, and searches a
-- listpack from its front. So a hash that grows past FEW fields is turned into a hash table, by a field that is too
-- long for a listpack and is removed at once.
local FEW = 64
local function write_fields(command, size)
  W[#W + 1] = command
  if size > 512 or size + (#command - 2) / 2 <= FEW then return end
  local key = command[2]
  if size > 0 and call('OBJECT', 'ENCODING', key) ~= 'listpack' then return end
  command[#command + 1] = ''
  command[#command + 1] = string.rep('-', 100)
  write('HDEL', key, '')
end

-- Returns a whole number as digits.
local function digits(n)
  return format('%d', n)
end

-- Converts numbers to big-endian bytes: a time to six, a small number to two.
local char, byte, sub, floor = string.char, string.byte, string.sub, math.floor
local function time_bytes(n)
  local high = floor(n / 16777216)
  local low = n - high * 16777216
  return char(floor(high / 65536), floor(high / 256) % 256, high % 256,
    floor(low / 65536), floor(low / 256) % 256, low % 256)
end
local function two_bytes(n)
  return char(floor(n / 256), n % 256)
end
local function time_at(s, at)
  local a, b, c, d, e, f = byte(s, at, at + 5)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

-- Returns true if a is before b, byte by byte.
local function before(a, b)
  local shorter = math.min(#a, #b)
  for i = 1, shorter do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Reads the head of a record; see record.rs for the bytes.
local function core_of(record)
  if record == '' then return '' end
  local high, low = byte(record, 8, 9)
  return sub(record, 1, high * 256 + low)
end
local function is_retry(record)
  return string.byte(record, 2) % 2 == 1
end
local function lies_apart(record)
  return math.floor(string.byte(record, 2) / 2) % 2 == 1
end
local function may_expire(record)
  return math.floor(string.byte(record, 2) / 4) % 2 == 1
end
local function lane_of(record)
  return string.byte(record, 3)
end
local function size_of(record)
  local a, b, c, d = byte(record, 4, 7)
  return ((a * 256 + b) * 256 + c) * 256 + d
end
local function due_of(record)
  return time_at(record, 16)
end
-- Returns the bytes that a pending timer counts for in the namespace's counts.
local function cost_of(id, record)
  return 128 + #id + size_of(record)
end

-- Reads a lease; see record/lease.rs for the bytes.
local function lease_of(hold)
  return { nonce = sub(hold, 1, 8), since = time_at(hold, 9), till = time_at(hold, 15), who = sub(hold, 27) }
end
-- Returns the set of the leases of a consumer ('C') or of a node.
local function leases_of(who)
  return who == 'C' and K .. 'leased' or K .. 'own:' .. who
end
local function is_over(lease)
  return lease.who == 'C' and lease.till <= now
end

-- Returns the quota of a shard: its even split plus what transfers changed; 0 while it is not allocated ('-').
local function allowance(share, moved)
  if not share then return nil end
  return moved ~= '-' and tonumber(share) + tonumber(moved or '0') or 0
end

-- Returns the settings and the state of a namespace; nil if there is none of this number.
local function control(num)
  local f = call('HMGET', K .. 'n:' .. num, 'name', 'ver', 'gate', 'paused', 'resumes', 'dest',
    'lease', 'retention', 'a_pending', 'a_dead', 'a_retained', 'm_pending', 'm_dead', 'over')
  if not f[1] then return nil end
  local dead = allowance(f[10], f[13])
  local resumes = tonumber(f[5] or '')
  return { num = num, name = f[1], ver = f[2], closing = f[3] and true,
           paused = f[4] == '1' and not (resumes and resumes <= now),
           dest = f[6], lease = tonumber(f[7]), retention = tonumber(f[8]),
           -- Tombstones of timers that ended by this time are over, also under a longer retention.
           over = tonumber(f[14] or '0'),
           a_pending = allowance(f[9], f[12]), a_retained = tonumber(f[11]), own_dead = dead,
           -- A shard without a dead letter claims even without a quota.
           a_dead = f[13] ~= '-' and math.max(dead, 1) or 0 }
end

-- Returns true if a set for lists is kept up to date ('l': leases, 's': tombstones); see index.lua.
local indexed = {}
local function is_indexed(num, what)
  local key = K .. 'ix:' .. num .. ':' .. what
  if indexed[key] == nil then indexed[key] = call('EXISTS', key) == 1 end
  return indexed[key]
end

-- Returns the earliest time after now at which something becomes claimable; nil if there is none.
local function ahead()
  local best
  local after = '(' .. now_text
  for _, key in ipairs({ 'lanes', 'leased', 'resume' }) do
    local text = call('ZRANGEBYSCORE', K .. key, after, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    local at = text and tonumber(text)
    if at and (not best or at < best) then best = at end
  end
  return best
end

-- Returns at most `most` names of a sorted set of names, in order, after a name or from the first one ('').
local function names_after(set, name, most)
  return call('ZRANGEBYLEX', K .. set, name == '' and '-' or '(' .. name, '+', 'LIMIT', 0, most)
end

-- Returns true if the clock has ended a lease or a firing that is not swept yet.
local function owed()
  return #call('ZRANGEBYSCORE', K .. 'leased', '-inf', now_text, 'LIMIT', '0', '1') > 0
      or #call('ZRANGEBYSCORE', K .. 'exp', '-inf', '(' .. now_text, 'LIMIT', '0', '1') > 0
end
