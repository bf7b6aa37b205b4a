-- Defines lanes, in which claimable timers wait, and the index of their heads.
--
-- 1. d:<num>:<lane>:f holds (due at, id) of the first attempts of a lane, in blocks (blocks.lua).
-- 2. d:<num>:<lane>:r holds (claimable at, id) of the retries, in one sorted set, as they are few.
-- 3. `lanes` holds (head of such a set, num NUL lane NUL class), so one read finds the next timer of the shard.
-- 4. b:<num> holds (due at, id) of retried timers, waiting or leased. While a caller lists them, bx:<num> holds that
--    of leased first attempts (index.lua).
local lane_texts = { '1', '2' }
lane_texts[0] = '0'
local function lane_text(lane)
  local text = lane_texts[lane]
  if not text then
    text = digits(lane)
    lane_texts[lane] = text
  end
  return text
end
local function set_of(num, lane, class)
  return K .. 'd:' .. num .. ':' .. lane_text(tonumber(lane)) .. ':' .. class
end

-- Returns the key of a lane: P, V, or O and the origin. Timers in lane 0 follow the namespace's destination.
local function lane_key(ctl, lane)
  lane = tonumber(lane)
  if lane == 0 then return ctl.dest end
  return lane == 1 and 'P' or lane == 2 and 'V' or 'O' .. call('HGET', K .. 'nl:' .. ctl.num, 'k' .. lane_text(lane))
end

-- Adds a timer to its lane, and removes it.
local function lane_add(num, lane, class, at, id)
  local set = set_of(num, lane, class)
  if class == 'f' then return block_add(set, at, id) end
  write('ZADD', set, digits(at), id)
end
local function lane_drop(num, lane, class, id, record)
  local set = set_of(num, lane, class)
  if class == 'r' then return write('ZREM', set, id) end
  local due = due_of(record)
  block_drop(set, block_of(set, due, id), id)
end

-- Returns the first rows of a lane, at most `most`, and with `to` none after the first that is later than `to`:
-- { id, claimable at, the same as text, `mark`, block, place in it }.
local function lane_front(num, lane, class, most, to, mark)
  local set = set_of(num, lane, class)
  if class == 'f' then return block_front(set, most, to, mark) end
  local rows, step = {}, to and math.min(most, 2) or most
  repeat
    local found = call('ZRANGE', set, digits(#rows), digits(#rows + step - 1), 'WITHSCORES')
    for i = 1, #found, 2 do
      local at = tonumber(found[i + 1])
      rows[#rows + 1] = { found[i], at, found[i + 1], mark }
      if to and at > to then return rows end
    end
    local all = #found < step * 2
    step = most - #rows
  until all or step <= 0
  return rows
end

-- Counts the timers of a lane up to a time, or all; an estimate beyond `exact` blocks.
local function lane_count(num, lane, class, to, exact)
  local set = set_of(num, lane, class)
  if class == 'f' then return block_count(set, to, exact) end
  if not to then return call('ZCARD', set) end
  return call('ZCOUNT', set, '-inf', digits(to))
end

-- Returns the first time after `at` at which a timer of the lane becomes claimable.
local function lane_after(num, lane, class, at)
  local set = set_of(num, lane, class)
  if class == 'f' then return block_after(set, at) end
  local row = call('ZRANGEBYSCORE', set, '(' .. digits(at), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return tonumber(row[2] or '')
end
local function lane_member(num, lane, class)
  return num .. NUL .. lane_text(lane) .. NUL .. class
end
local function class_of(record)
  return is_retry(record) and 'r' or 'f'
end

-- Returns the lane of an origin: 3 and up, or the shared lane 2 if the namespace has the most lanes allowed.
local new_origins, new_count = {}, nil
local function lane_of_origin(num, origin)
  if new_origins[origin] then return new_origins[origin] end
  local key = K .. 'nl:' .. num
  local known = call('HMGET', key, 'o' .. origin, 'count')
  if known[1] then return tonumber(known[1]) end
  local count = new_count or tonumber(known[2] or '0')
  if count >= 252 then return 2 end
  new_count = count + 1
  new_origins[origin] = count + 3
  gather('HSET', key, 'o' .. origin, count + 3, 'k' .. (count + 3), origin, 'count', count + 1)
  return count + 3
end

-- Writes the new head of a set from which `minus` is removed, and to which an entry at `plus` is added. Returns the
-- old head.
local function rehead(num, lane, class, minus, plus)
  local rows = lane_front(num, lane, class, 2)
  local first = rows[1]
  if first and first[1] == minus then first = rows[2] end
  local head = first and first[2]
  if plus and (not head or plus < head) then head = plus end
  local member = lane_member(num, lane, class)
  if head then
    write('ZADD', K .. 'lanes', digits(head), member)
  else
    write('ZREM', K .. 'lanes', member)
  end
  return rows[1] and rows[1][2]
end

-- Wakes the waiting nodes if this is earlier than the next known time, or if its lane was idle.
local function wake_for(at, head_before, ahead_before)
  local earlier = at > now and (not ahead_before or at < ahead_before)
  local idle = at <= now and (not head_before or head_before > now)
  if earlier or idle then write('SPUBLISH', K .. 'wake', '') end
end

-- Removes a lease: from the clock's set or its holder's, and from the counts.
local function unlease(num, id, record, lease)
  local member = num .. NUL .. id
  write('ZREM', leases_of(lease.who), member)
  write('HDEL', K .. 'x:' .. num, id)
  write('HINCRBY', K .. 'c:' .. num, 'leased', -1)
  write('HINCRBY', K .. 'c:' .. num, 'i' .. lane_of(record), -1)
end

-- Removes a live timer from the sets for lists.
local function unlist(num, id, record, hold)
  if is_retry(record) then
    gather('ZREM', K .. 'b:' .. num, id)
  elseif hold ~= '' and is_indexed(num, 'l') then
    gather('ZREM', K .. 'bx:' .. num, id)
  end
end

-- Removes a live timer from everything except its record, and with `keeps_head` except the head of its lane.
local function uproot(num, id, record, hold, keeps_head)
  if hold ~= '' then
    unlease(num, id, record, lease_of(hold))
  else
    local lane, class = lane_of(record), class_of(record)
    if not keeps_head then rehead(num, lane, class, id, nil) end
    lane_drop(num, lane, class, id, record)
    if may_expire(record) then write('ZREM', K .. 'exp', num .. NUL .. id) end
  end
  unlist(num, id, record, hold)
  write('HINCRBY', K .. 'c:' .. num, 'pending', -1)
  write('HINCRBY', K .. 'c:' .. num, 'bytes', -cost_of(id, record))
end
