-- Returns a window of a list, in order of (due time, key).
--
-- KEYS  seq
-- ARGV  1 '1' to return OWED if leases or firings have ended  2 namespace
--       3 pending, scheduled, due, busy (leased, or to be retried), dead, F or C
--       4 due at or after, or ''  5 due before, or ''  6 due time of the last row before, or ''
--       7 its key  8 most rows  9 number:version of the settings that the caller knows
--       10 bytes of records after which no more rows follow
-- reply OWED now | NONE now | INDEX now what (index.lua must be called first) | OK now number version settings '1' at the
--       end else '0', rows; row: due at, key, record or tombstone, lease
if ARGV[1] == '1' and owed() then return { 'OWED', digits(now) } end
local name, kind, most = ARGV[2], ARGV[3], tonumber(ARGV[8])
local num = num_of(name)
local ctl = num and control(num)
if not ctl then return { 'NONE', digits(now) } end
local from, to = tonumber(ARGV[4]), tonumber(ARGV[5])

local sets, in_blocks = {}, {}
if kind == 'pending' or kind == 'scheduled' or kind == 'due' then
  local count = tonumber(call('HGET', K .. 'nl:' .. num, 'count') or '0')
  for lane = 0, count + 2 do
    local set = set_of(num, lane, 'f')
    sets[#sets + 1] = set
    in_blocks[set] = true
  end
end
-- Returns true if a set for lists has been made, and stays for longer than a page takes.
local function is_made(what, source)
  if call('HLEN', K .. source .. ':' .. num) == 0 then return true end
  local key = K .. 'ix:' .. num .. ':' .. what
  return call('GET', key) == 'done' and call('PTTL', key) > 30000
end
if kind == 'pending' or kind == 'busy' then
  if not is_made('l', 'x') then return { 'INDEX', digits(now), 'l' } end
  sets[#sets + 1] = K .. 'b:' .. num
  sets[#sets + 1] = K .. 'bx:' .. num
end
if (kind == 'F' or kind == 'C') and not is_made('s', 's') then return { 'INDEX', digits(now), 's' } end
if kind == 'dead' then sets = { K .. 'dead:' .. num } end
if kind == 'F' or kind == 'C' then sets = { K .. 'sd:' .. num .. ':' .. kind } end

-- The window begins after (after_at, after_key).
local after_at, after_key = tonumber(ARGV[6]) or -1, ARGV[7]
if from and from > after_at then after_at, after_key = from, '' end
if kind == 'scheduled' and now + 1 > after_at then after_at, after_key = now + 1, '' end
local function comes_after(at, key)
  if at ~= after_at then return at > after_at end
  return before(after_key, key)
end

-- Each set is a source of rows from the begin of the window on; empty sets are left out.
local chunk = most + 1
if #sets > 4 then chunk = 16 end
local function refill(source)
  if source.ended then return end
  if in_blocks[source.set] then
    local member = call('ZRANGE', source.set, source.rank, source.rank)[1]
    source.rank = source.rank + 1
    source.ended = not member
    source.rows, source.i = member and call('ZRANGE', block_key(source.set, member), 0, -1, 'WITHSCORES') or {}, 1
    return
  end
  source.rows, source.i = call('ZRANGE', source.set, source.rank, source.rank + chunk - 1, 'WITHSCORES'), 1
  source.ended = #source.rows < chunk * 2
  source.rank = source.rank + chunk
end
local sources = {}
for _, set in ipairs(sets) do
  if call('ZCARD', set) > 0 then
    local source = { set = set }
    if in_blocks[set] then
      source.rank = rank_of_block(set, math.max(after_at, 0), after_key)
      refill(source)
      while source.rows[source.i] and not comes_after(tonumber(source.rows[source.i + 1]), source.rows[source.i]) do
        source.i = source.i + 2
      end
    else
      source.rank = 0
      if after_at >= 0 then source.rank = seek(set, after_at, after_key) end
      refill(source)
    end
    sources[#sources + 1] = source
  end
end

local rows, done, bytes = {}, '0', 0
while true do
  local best, best_at
  for _, source in ipairs(sources) do
    if source.i > #source.rows then refill(source) end
    if source.i <= #source.rows then
      local at = tonumber(source.rows[source.i + 1])
      if not best or at < best_at or (at == best_at and before(source.rows[source.i], best.rows[best.i])) then
        best, best_at = source, at
      end
    end
  end
  if not best or (to and best_at >= to) or (kind == 'due' and best_at > now) then
    done = '1'
    break
  end
  if #rows >= most or bytes >= tonumber(ARGV[10]) then break end
  local key = best.rows[best.i]
  best.i = best.i + 2
  local record, hold
  if kind == 'F' or kind == 'C' then
    record = call('HGET', K .. 's:' .. num, key)
    if record and time_at(record, 2) <= ctl.over then record = '' end
  else
    record = call('HGET', K .. 'r:' .. num, key)
    if kind == 'pending' or kind == 'busy' then hold = call('HGET', K .. 'x:' .. num, key) end
  end
  bytes = bytes + #(record or '')
  rows[#rows + 1] = { digits(best_at), key, record or '', hold or '' }
end
local settings = ''
if ARGV[9] ~= num .. ':' .. ctl.ver then settings = call('HGET', K .. 'n:' .. num, 'settings') end
return { 'OK', digits(now), num, ctl.ver, settings, done, rows }
