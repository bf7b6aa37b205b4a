-- Counts the pending timers of some lanes that become claimable in each bucket.
--
-- KEYS  seq
-- ARGV  1 '1' to return OWED if leases or firings have ended  2 namespace
--       3 time from which the forecast is made, or '' for now  4 ms of a bucket  5 number of buckets
--       6 first lane  7 most lanes
-- reply OWED now | NONE now |
--       OK now, next lane or '', in flight, overdue, later, then number and count of each bucket
if ARGV[1] == '1' and owed() then return { 'OWED', digits(now) } end
local num = num_of(ARGV[2])
if not num or not control(num) then return { 'NONE', digits(now) } end
local seen, bucket, count = tonumber(ARGV[3]) or now, tonumber(ARGV[4]), tonumber(ARGV[5])
local from = math.floor(seen / bucket) * bucket
local first, most = tonumber(ARGV[6]), tonumber(ARGV[7])
local last = tonumber(call('HGET', K .. 'nl:' .. num, 'count') or '0') + 2
local overdue, later, buckets = 0, 0, {}
-- Returns the bucket of a time; -1 if it is overdue, `count` if it is later. Entries of one bucket are counted together.
local function place(at)
  if at <= seen then return -1 end
  return math.min(floor((at - from) / bucket), count)
end
local function add(i, n)
  if i < 0 then
    overdue = overdue + n
  elseif i == count then
    later = later + n
  else
    buckets[i] = (buckets[i] or 0) + n
  end
end
for lane = first, math.min(first + most - 1, last) do
  local retries = call('ZRANGE', set_of(num, lane, 'r'), 0, -1, 'WITHSCORES')
  for i = 2, #retries, 2 do add(place(tonumber(retries[i])), 1) end
  local dir = set_of(num, lane, 'f')
  local members = call('ZRANGE', dir, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    local key, starts, ends = block_key(dir, members[i]), tonumber(members[i + 1]), tonumber(members[i + 3] or '')
    local here = place(starts)
    -- The first block may begin before its entry in the directory, and the last block has no end.
    if i > 1 and (here == count or (ends and here == place(ends))) then
      add(here, call('ZCARD', key))
    else
      local rows = call('ZRANGE', key, 0, -1, 'WITHSCORES')
      for k = 2, #rows, 2 do add(place(tonumber(rows[k])), 1) end
    end
  end
end
local next_lane = ''
if first + most <= last then next_lane = digits(first + most) end
local out = { 'OK', digits(seen), next_lane, call('HGET', K .. 'c:' .. num, 'leased') or '0', overdue, later }
for i, n in pairs(buckets) do
  out[#out + 1] = i
  out[#out + 1] = n
end
return out
