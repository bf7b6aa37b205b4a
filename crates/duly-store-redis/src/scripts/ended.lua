-- Stubs of ended timers: s:<num> by id; sl:<num>, a list of (ended at, id) in order of ending; and while
-- somebody lists them sd:<num>:F and :C in order of due times (index.lua). An entry of sl whose time is
-- not that of the stub is of one that was replaced. All go with the last of them by TTL, should
-- nothing else come.

-- Takes a stub away.
local function drop_stub(num, id)
  gather('HDEL', K .. 's:' .. num, id)
  if not is_indexed(num, 's') then return end
  gather('ZREM', K .. 'sd:' .. num .. ':F', id)
  gather('ZREM', K .. 'sd:' .. num .. ':C', id)
end

-- The number of the next dead letter: the order of dying is theirs, not the clock's.
local function next_ended(num)
  return tonumber(call('HGET', K .. 'c:' .. num, 'ended') or '0') + 1
end

-- Whether a stub is over.
local function stub_is_over(ctl, stub)
  return stub == '' or time_at(stub, 2) + ctl.retention <= now
end

-- Drops stubs that are over, and as many as there are too many, those that ended first before the
-- others; looks at so many entries. `kept` goes anyway, and `more` come. Answers how many went.
local function trim_stubs(ctl, more, kept, most)
  local stubs, list = K .. 's:' .. ctl.num, K .. 'sl:' .. ctl.num
  local over = call('HLEN', stubs) + more - ctl.a_retained
  if kept and call('HEXISTS', stubs, kept) == 1 then over = over - 1 end
  local looked = 0
  while looked < most do
    local entries = call('LRANGE', list, digits(looked), digits(looked + math.min(math.max(over, 1), most - looked) - 1))
    if not entries[1] then break end
    for _, entry in ipairs(entries) do
      local id = sub(entry, 7)
      local stub = call('HGET', stubs, id)
      if stub and id ~= kept and sub(stub, 2, 7) == sub(entry, 1, 6) then
        if over <= 0 and not stub_is_over(ctl, stub) then
          most = 0
          break
        end
        over = over - 1
        drop_stub(ctl.num, id)
      end
      looked = looked + 1
    end
  end
  if looked > 0 then write('LTRIM', list, digits(looked), '-1') end
  return looked
end

-- The due time of a stub: that of its core, which stands behind the lease.
local function due_of_stub(stub)
  return time_at(stub, 8 + byte(stub, 8) + 16)
end

-- Keeps stubs of one kind for the retention. Whoever had an id before is gone from `sd`.
local function keep_stubs(ctl, kind, ids, stubs)
  local num = ctl.num
  local set, list = { 'HSET', K .. 's:' .. num }, { 'RPUSH', K .. 'sl:' .. num }
  for i, id in ipairs(ids) do
    set[i * 2 + 1], set[i * 2 + 2] = id, stubs[i]
    list[i + 2] = sub(stubs[i], 2, 7) .. id
  end
  for _, command in ipairs({ set, list }) do
    W[#W + 1] = command
    write('PEXPIREAT', command[2], digits(now + ctl.retention))
  end
  if is_indexed(num, 's') then
    local dues = K .. 'sd:' .. num .. ':' .. kind
    for i, id in ipairs(ids) do gather('ZADD', dues, digits(due_of_stub(stubs[i])), id) end
    write('PEXPIRE', dues, '120000')
  end
end
local function keep_stub(ctl, id, kind, stub)
  if ctl.retention <= 0 or ctl.a_retained <= 0 then return end
  trim_stubs(ctl, 1, id, 16)
  keep_stubs(ctl, kind, { id }, { stub })
end
