-- Writes the decision about one id, if nothing that the decision was based on has changed since.
--
-- KEYS  seq
-- ARGV  name and value of each, in any order; parts that are left out stay as they are:
--       name num ver id    namespace, its number and version, the timer's id
--       core lease stub newest   bytes that were read: head of the record, lease, tombstone, latest dead letter
--       live               the new record, or '' to remove it
--       mark               the new record of a timer that stays leased, in place of live
--       origin             the origin whose lane the timer is in; without it, the lane is the one in the record
--       payload            the payload stored apart, or '' for none
--       at                 time when it is claimable; the timer is not leased after a change
--       exp                time when it expires, if it may
--       ended kind         the new tombstone, or '' to drop the present one
--       bury bury_fk bury_due bury_did   a new dead letter: record, key, due time, delivery id
--       bury_payload       its payload stored apart; '=' moves that of the live timer
--       take_fk take_core take_did take_payload   a dead letter to remove; '=' moves its payload to the live timer
--       one_more one_letter      to be refused above these limits: pending timers, dead letters
--       rate               to be refused above the schedule rate: 'home' if this is the coordinator shard, 'held' if
--                          that has granted the operation, 'ask' if it must be asked where there is a rate
--       count.<name>       amount to add to a count
-- reply DONE now | AGAIN now (something has changed: the caller reads again) | CLOSING now | PENDING now | DEAD now |
--       ASK now | RATE now wait_ms
local A = {}
for i = 1, #ARGV, 2 do A[ARGV[i]] = ARGV[i + 1] end
local num, id = A.num, A.id
local R, X, P, C = K .. 'r:' .. num, K .. 'x:' .. num, K .. 'p:' .. num, K .. 'c:' .. num

local function answer(word)
  return unchanged(word, now_text)
end
local ctl = control(num)
if not ctl or ctl.ver ~= A.ver or call('HGET', K .. 'nn', A.name) ~= num then return answer('AGAIN') end
local old = call('HGET', R, id) or ''
local hold = call('HGET', X, id) or ''
if core_of(old) ~= A.core or hold ~= A.lease then return answer('AGAIN') end
if A.stub and (call('HGET', K .. 's:' .. num, id) or '') ~= A.stub then return answer('AGAIN') end
if A.newest then
  local newest = call('ZREVRANGEBYLEX', K .. 'di:' .. num, '[' .. id .. NUL .. string.char(255),
    '[' .. id .. NUL, 'LIMIT', 0, 1)[1] or ''
  if newest ~= A.newest then return answer('AGAIN') end
end
local taken, taken_number
if A.take_fk then
  taken = call('HGET', R, A.take_fk) or ''
  if core_of(taken) ~= A.take_core then return answer('AGAIN') end
  taken_number = string.sub(call('HGET', K .. 'dx:' .. num, A.take_did), 1, 16)
end
if ctl.closing and (A.one_more or A.one_letter) then return answer('CLOSING') end
local pending = A.one_more and ctl.a_pending and tonumber(call('HGET', C, 'pending') or '0')
if pending and pending >= ctl.a_pending then return answer('PENDING') end
-- A dead letter that a caller makes on purpose (import, or a call that dead-letters).
if A.one_letter and call('ZCARD', K .. 'dead:' .. num) >= ctl.own_dead then return answer('DEAD') end
local rate = A.rate and A.rate ~= 'held' and rate_of(num)
if rate then
  if A.rate == 'ask' then return answer('ASK') end
  if rate_free(rate) < 1 then return unchanged('RATE', now_text, digits(rate_wait(rate))) end
  rate_take(rate, 1)
end
local first = ahead()

-- The payload, if it is stored apart and moves.
local moving
if A.bury_payload == '=' then moving = call('HGET', P, id) end
if A.take_payload == '=' then moving = call('HGET', P, A.take_fk) end

if A.mark then write('HSET', R, id, A.mark) end

-- Removes the timer from its old place, and files the new record.
local new_lane, new_class
if A.live and A.live ~= '' then
  new_lane = lane_of(A.live)
  if A.origin then new_lane = lane_of_origin(num, A.origin) end
  A.live = string.sub(A.live, 1, 2) .. string.char(new_lane) .. string.sub(A.live, 4)
  new_class = class_of(A.live)
end
local filed_before = old ~= '' and hold == ''
local same = filed_before and new_lane and lane_of(old) == new_lane and class_of(old) == new_class
if A.live then
  if old ~= '' then uproot(num, id, old, hold, same) end
  if A.live == '' then
    write('HDEL', R, id)
    write('HDEL', P, id)
  else
    write('HSET', R, id, A.live)
    write('HINCRBY', C, 'pending', 1)
    write('HINCRBY', C, 'bytes', cost_of(id, A.live))
    if is_retry(A.live) then write('ZADD', K .. 'b:' .. num, digits(due_of(A.live)), id) end
    local at, minus = tonumber(A.at), nil
    if same then minus = id end
    local head = rehead(num, new_lane, new_class, minus, at)
    lane_add(num, new_lane, new_class, at, id)
    if A.exp then write('ZADD', K .. 'exp', A.exp, num .. NUL .. id) end
    wake_for(at, head, first)
    if A.payload == '' then
      write('HDEL', P, id)
    elseif A.payload then
      write('HSET', P, id, A.payload)
    elseif A.take_payload == '=' and moving then
      write('HSET', P, id, moving)
    end
  end
end

-- Removes a dead letter.
if A.take_fk then
  write('HDEL', R, A.take_fk)
  write('HDEL', P, A.take_fk)
  write('HDEL', K .. 'dx:' .. num, A.take_did)
  write('ZREM', K .. 'dead:' .. num, A.take_fk)
  write('ZREM', K .. 'di:' .. num, id .. NUL .. taken_number .. string.sub(A.take_fk, #id + 1))
  -- A namespace that had stalled because of its dead letters resumes.
  if call('ZCARD', K .. 'dead:' .. num) >= ctl.a_dead then write('SPUBLISH', K .. 'wake', '') end
end

-- Adds a dead letter; it replaces one of the same delivery id.
if A.bury then
  local number = string.format('%016.0f', next_ended(num))
  local known = call('HGET', K .. 'dx:' .. num, A.bury_did)
  if known then
    write('ZREM', K .. 'di:' .. num, id .. NUL .. string.sub(known, 1, 16) .. string.sub(A.bury_fk, #id + 1))
  end
  write('HSET', C, 'ended', number)
  write('HSET', R, A.bury_fk, A.bury)
  write('ZADD', K .. 'dead:' .. num, A.bury_due, A.bury_fk)
  write('HSET', K .. 'dx:' .. num, A.bury_did, number .. A.bury_fk)
  write('ZADD', K .. 'di:' .. num, 0, id .. NUL .. number .. string.sub(A.bury_fk, #id + 1))
  if A.bury_payload == '=' then
    if moving then write('HSET', P, A.bury_fk, moving) end
  elseif A.bury_payload then
    write('HSET', P, A.bury_fk, A.bury_payload)
  end
end

if A.ended == '' then
  drop_tombstone(num, id)
elseif A.ended then
  drop_tombstone(num, id)
  keep_tombstone(ctl, id, A.kind, A.ended)
end
for name, by in pairs(A) do
  local count = string.match(name, '^count%.(%w+)$')
  if count then write('HINCRBY', C, count, by) end
end
flush()
return { 'DONE', digits(now) }
