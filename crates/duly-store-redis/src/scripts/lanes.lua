-- Lanes: where claimable timers wait, and the index of their heads.
--
-- d:<num>:<lane>:<class> holds (claimable at, id) of the first attempts (f) or retries (r) of a
-- lane; `lanes` holds (head of that set, num NUL lane NUL class), so that what is next in the shard
-- is one look. b:<num> holds (due at, id) of all that is pending and not a first attempt in a lane.
local function set_of(num, lane, class)
  return K .. 'd:' .. num .. ':' .. lane .. ':' .. class
end
local function lane_member(num, lane, class)
  return num .. NUL .. lane .. NUL .. class
end
local function class_of(record)
  if is_retry(record) then return 'r' end
  return 'f'
end

-- The lane of an origin: 3 and up; 2, the shared one, when the namespace has as many as it may.
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

-- Writes the new head of a set from which `minus` goes and to which something at `plus` comes.
-- Answers the head that it had.
local function rehead(num, lane, class, minus, plus)
  local rows = call('ZRANGE', set_of(num, lane, class), 0, 1, 'WITHSCORES')
  local head
  if rows[1] and rows[1] ~= minus then
    head = tonumber(rows[2])
  elseif rows[3] then
    head = tonumber(rows[4])
  end
  if plus and (not head or plus < head) then head = plus end
  local member = lane_member(num, lane, class)
  if head then
    write('ZADD', K .. 'lanes', digits(head), member)
  else
    write('ZREM', K .. 'lanes', member)
  end
  return tonumber(rows[2] or '')
end

-- Wakes whoever waits, if this is earlier than all that was told, or its lane was idle.
local function wake_for(at, head_before, ahead_before)
  local earlier = at > now and (not ahead_before or at < ahead_before)
  local idle = at <= now and (not head_before or head_before > now)
  if earlier or idle then write('SPUBLISH', K .. 'wake', '') end
end

-- Takes a lease away: from the clock's list or its owner's, and from the counts.
local function unlease(num, id, record, lease)
  local member = num .. NUL .. id
  if lease.who == 'C' then
    write('ZREM', K .. 'leased', member)
  else
    write('ZREM', K .. 'own:' .. lease.who, member)
  end
  write('HDEL', K .. 'x:' .. num, id)
  write('HINCRBY', K .. 'c:' .. num, 'leased', -1)
  write('HINCRBY', K .. 'c:' .. num, 'i' .. lane_of(record), -1)
end

-- Takes a live timer out of everything but its record.
local function uproot(num, id, record, hold)
  if hold ~= '' then
    unlease(num, id, record, lease_of(hold))
  else
    local lane, class = lane_of(record), class_of(record)
    rehead(num, lane, class, id, nil)
    write('ZREM', set_of(num, lane, class), id)
    if may_expire(record) then write('ZREM', K .. 'exp', num .. NUL .. id) end
  end
  if hold ~= '' or is_retry(record) then write('ZREM', K .. 'b:' .. num, id) end
  write('HINCRBY', K .. 'c:' .. num, 'pending', -1)
  write('HINCRBY', K .. 'c:' .. num, 'bytes', -cost_of(id, record))
end
