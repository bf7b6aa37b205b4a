-- Leases due firings of the named lanes, lane by lane (P2, P3, P9).
--
-- KEYS  seq
-- ARGV  1 nonce (6 bytes); a number for each lease is appended  2 first such number
--       3 'C' for a consumer, else the member id of a node  4 lease ms, or '' for the namespace's own
--       5 '1' to return OWED if leases or firings have ended  6 most firings  7 most bytes
--       8 '1' if this claim has granted something before  9 '1' to grant nothing more
--       10 most firings of this script  11 most bytes of this script
--       then for each lane: namespace, key (P, V or O and the origin), most first attempts, most
--       retries, number:version of the settings that the caller knows
-- reply OWED now | GONE now (the member id was released) | VOID now (the claim was taken back) |
--       OK now, reason for its end: '' (all lanes were visited), 'slice' (continue at the lane) or 'full' (enough
--       was granted); lane to continue at; groups; grants; lanes with more; settings; next; next of
--       these lanes; '1' if no other set has anything due
--       groups of grants, in their order: lane, class, count, end of the lease or 0
--       grants: of each claimable at, id, record
--       settings: lane, number:version, settings
local run, strict = ARGV[3], ARGV[5] == '1'
local total, bytes = tonumber(ARGV[6]), tonumber(ARGV[7])
local any, full = ARGV[8] == '1', ARGV[9] == '1'
local slice, slice_bytes = tonumber(ARGV[10]), tonumber(ARGV[11])
if strict and owed() then return { 'OWED', now_text } end
if call('EXISTS', K .. 'void:' .. ARGV[1]) == 1 then return { 'VOID', now_text } end
if run ~= 'C' and call('HGET', K .. 'runs', run) == 'gone' then return { 'GONE', now_text } end

local number, since = tonumber(ARGV[2]), now_text
local next_at = ahead()
local function sooner(at)
  if at and at > now and (not next_at or at < next_at) then next_at = at end
end
local CLASSES = { 'f', 'r' }
local sets = {}                  -- sets that this script reads, with its grants from them
local groups, grants, got, members, settings, lanes = {}, {}, 0, {}, {}, {}
local stopped, go_on_at = '', 0

local function earlier(a, b)
  if a[2] ~= b[2] then return a[2] < b[2] end
  return before(a[1], b[1])
end

-- Merges two ordered lists of rows.
local function merged(a, b)
  if not b[1] then return a end
  if not a[1] then return b end
  local rows, i, k = {}, 1, 1
  for n = 1, #a + #b do
    if b[k] and not (a[i] and earlier(a[i], b[k])) then
      rows[n], k = b[k], k + 1
    else
      rows[n], i = a[i], i + 1
    end
  end
  return rows
end

-- Returns the due entries of one class over the sets of a lane, in order, without those already granted. The entry
-- after them is the new head of its set.
local function due_rows(num, codes, class, most)
  local due = {}
  for _, lane in ipairs(codes) do
    local set = set_of(num, lane, class)
    local state = sets[set] or { set = set, front = {}, count = 0, num = num, lane = lane, class = class }
    sets[set] = state
    -- A lane that is named twice is read twice, so granted entries are skipped.
    local granted = {}
    for _, row in ipairs(state.front) do
      if not row[4] then granted[row[1]] = true end
    end
    local rows, n = {}, 0
    state.front = lane_front(num, lane, class, most + state.count, now, state)
    for _, row in ipairs(state.front) do
      if granted[row[1]] then
        row[4] = false
      elseif row[2] > now then
        break
      else
        n = n + 1
        rows[n] = row
      end
    end
    due = merged(due, rows)
  end
  return due
end

-- Namespaces, each with the writes for its grants.
local nonce, asked, by_consumer = ARGV[1], tonumber(ARGV[4]), run == 'C'
local spaces, named = {}, {}
local function space_of(name)
  local num = named[name]
  if num == nil then
    num = num_of(name) or false
    named[name] = num
    local ctl = num and control(num)
    if ctl and not ctl.paused and call('ZCARD', K .. 'dead:' .. num) < ctl.a_dead then
      local ends = by_consumer and now + (asked or ctl.lease) or 0
      ctl.ends, ctl.till, ctl.times = ends, digits(ends), time_bytes(now) .. time_bytes(ends)
      ctl.x = { 'HSET', K .. 'x:' .. num }
      ctl.listed = is_indexed(num, 'l') and { 'ZADD', K .. 'bx:' .. num }
      ctl.own = { 'ZADD', leases_of(run) }
      ctl.score, ctl.prefix = by_consumer and ctl.till or since, num .. NUL
      ctl.leased, ctl.lanes = 0, {}
      spaces[num] = ctl
    end
  end
  return num and spaces[num]
end

-- Grants a row of a set, and marks the row as granted; `flags` are those of its record.
local function grant(ctl, class, row, record, flags)
  local id, at, state = row[1], row[3], row[4]
  local member, x, own = ctl.prefix .. id, ctl.x, ctl.own
  if ctl.leased == 0 and by_consumer then sooner(ctl.ends) end
  -- A first attempt is claimable from its due time.
  local claimable = class == 'f' and sub(record, 16, 21) or time_bytes(row[2])
  x[#x + 1] = id
  x[#x + 1] = nonce .. two_bytes(number) .. ctl.times .. claimable .. run
  number = number + 1
  own[#own + 1] = ctl.score
  own[#own + 1] = member
  row[4], state.count = false, state.count + 1
  if class == 'f' then
    block_drop(state.set, row[5], id, row[6])
    local listed = ctl.listed
    if listed then
      listed[#listed + 1] = at
      listed[#listed + 1] = id
    end
  else
    gather('ZREM', state.set, id)
  end
  if flags >= 4 and may_expire(record) then gather('ZREM', K .. 'exp', member) end
  ctl.leased = ctl.leased + 1
  got = got + 1
  members[got] = member
  local n = got * 3
  grants[n - 2], grants[n - 1], grants[n] = at, id, record
end

local index = 0
for i = 12, #ARGV, 5 do
  index = index + 1
  local key, most, known = ARGV[i + 1], { f = tonumber(ARGV[i + 2]), r = tonumber(ARGV[i + 3]) }, ARGV[i + 4]
  local ctl = space_of(ARGV[i])
  if ctl then
    local num, codes = ctl.num, {}
    local code = key == 'P' and 1 or key == 'V' and 2 or call('HGET', K .. 'nl:' .. num, 'o' .. sub(key, 2))
    if code then codes[1] = tonumber(code) end
    if ctl.dest == key then codes[#codes + 1] = 0 end
    lanes[#lanes + 1] = { index = index, num = num, codes = codes }
    for _, class in ipairs(CLASSES) do
      if not full and stopped == '' and most[class] > 0 then
        local want = math.min(most[class], slice - got, total - got) + 1
        local granted = 0
        local rows = due_rows(num, codes, class, want)
        local ids = {}
        for i, row in ipairs(rows) do ids[i] = row[1] end
        local records = #ids > 0 and call('HMGET', K .. 'r:' .. num, unpack(ids))
        for i, row in ipairs(rows) do
          if granted >= most[class] then break end
          local record = records[i]
          local flags, _, s1, s2, s3, s4 = byte(record, 2, 7)
          local size = ((s1 * 256 + s2) * 256 + s3) * 256 + s4
          local late
          if flags >= 4 and may_expire(record) then
            late = tonumber(call('ZSCORE', K .. 'exp', num .. NUL .. row[1]) or '')
          end
          if late and late < now then
            -- It has expired; the next sweep makes it a dead letter.
          elseif got >= total or ((any or got > 0) and size > bytes) then
            full = true
            break
          elseif got >= slice or (got > 0 and #record > slice_bytes) then
            stopped, go_on_at = 'slice', index
            break
          else
            grant(ctl, class, row, record, flags)
            granted = granted + 1
            bytes = math.max(bytes - size, 0)
            slice_bytes = slice_bytes - #record
          end
        end
        if granted > 0 then
          local n = #groups
          groups[n + 1], groups[n + 2], groups[n + 3], groups[n + 4] = index, class, granted, ctl.till
        end
      end
    end
    if known ~= num .. ':' .. ctl.ver then
      settings[#settings + 1] = { index, num .. ':' .. ctl.ver, call('HGET', K .. 'n:' .. num, 'settings') }
    end
  end
  if stopped ~= '' then break end
end

-- Counts the other sets with something due.
local looked_at, is_ours = 0, {}
for _, from in pairs(sets) do
  from.member = lane_member(from.num, from.lane, from.class)
  is_ours[from.member] = true
  looked_at = looked_at + 1
end
local others = 0
for _, member in ipairs(call('ZRANGEBYSCORE', K .. 'lanes', '-inf', since, 'LIMIT', '0', digits(looked_at + 1))) do
  if not is_ours[member] then others = others + 1 end
end

-- New heads of the sets that lost entries. Each set was read one entry further than it was granted from.
local next_here
for _, from in pairs(sets) do
  for _, row in ipairs(from.front) do
    if row[4] then
      from.head = row[2]
      break
    end
  end
  if from.head and from.head > now and (not next_here or from.head < next_here) then next_here = from.head end
  if from.count > 0 then
    sooner(from.head)
    local in_flight = spaces[from.num].lanes
    in_flight[from.lane] = (in_flight[from.lane] or 0) + from.count
    if from.head then
      write('ZADD', K .. 'lanes', digits(from.head), from.member)
    else
      write('ZREM', K .. 'lanes', from.member)
    end
  end
end
local more = {}
for _, lane in ipairs(lanes) do
  local left
  for _, code in ipairs(lane.codes) do
    for _, class in ipairs(CLASSES) do
      local set = set_of(lane.num, code, class)
      local head
      if sets[set] then
        head = sets[set].head
      else
        local first = lane_front(lane.num, code, class, 1)[1]
        head = first and first[2]
      end
      if head and head <= now then left = true end
    end
  end
  if left then more[#more + 1] = lane.index end
end
for num, ctl in pairs(spaces) do
  if ctl.leased > 0 then
    write_fields(ctl.x, call('HLEN', ctl.x[2]))
    W[#W + 1] = ctl.own
    if ctl.listed and #ctl.listed > 2 then
      W[#W + 1] = ctl.listed
      write('PEXPIRE', ctl.listed[2], '120000')
    end
    write('HINCRBY', K .. 'c:' .. num, 'fired', ctl.leased)
    write('HINCRBY', K .. 'c:' .. num, 'leased', ctl.leased)
    for lane, by in pairs(ctl.lanes) do write('HINCRBY', K .. 'c:' .. num, 'i' .. lane, by) end
  end
end
-- A caller that does not get the reply hands these firings back (void_claim.lua).
if #members > 0 then
  write('RPUSH', K .. 'u:' .. ARGV[1], unpack(members))
  write('PEXPIRE', K .. 'u:' .. ARGV[1], '60000')
end
if run ~= 'C' and got > 0 then write('HSET', K .. 'runs', run, digits(now)) end
flush()
if stopped == '' and full then stopped = 'full' end
return { 'OK', now_text, stopped, go_on_at, groups, grants, more, settings, next_at and digits(next_at) or '',
  next_here and digits(next_here) or '', others == 0 and '1' or '0' }
