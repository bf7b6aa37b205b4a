# frozen_string_literal: true

# A small client of Duly, written from the HTTP reference (../http.md) alone. Standard library only;
# Ruby 3.0 or newer.
#
#     require_relative "duly"
#     shop = Duly.new("http://127.0.0.1:3859").namespace("shop")
#     shop.schedule(id: "order-1041", delay: "15m", payload: { order: 1041 })

require "erb"
require "json"
require "net/http"
require "openssl"
require "securerandom"
require "timeout"
require "uri"

# A server.
class Duly
  # Tries of one call, the first included.
  TRIES = 100
  # Wait after the first try. Each further wait is twice as long.
  FIRST_WAIT_S = 0.05
  # Longest wait between two tries.
  LONGEST_WAIT_S = 2.0
  # Time limit of a call with all its tries and waits. A lease call has its `wait` besides.
  LIMIT_S = 30
  # Time limit of a connection.
  CONNECT_S = 5

  # The end of a try that is no success. `outcome` is `:refused` (do not repeat), `:not_done` (repeat) or
  # `:in_doubt` (repeat if a second time does no harm).
  class Failure < StandardError
    attr_reader :outcome

    def initialize(message, outcome)
      super(message)
      @outcome = outcome
    end

    # Shortest wait before the same call is repeated.
    def wait_s = 0
  end

  # A refusal: `code` decides what to do, `message` is for people.
  class Problem < Failure
    attr_reader :fields

    def initialize(fields)
      @fields = fields
      super(fields["detail"], outcome_of(code))
    end

    def code = fields["code"]

    def wait_s = fields.fetch("retry_after_ms", 0) / 1000.0

    # True if the state of a timer is the reason: after a lost response, perhaps a change of the first try.
    def of_state? = [404, 409].include?(fields["status"])

    private

    # The list of codes is open: an unknown one counts by its status.
    def outcome_of(code)
      case code
      when "unavailable" then :not_done
      when "resource_exhausted" then fields["retry_after_ms"] ? :not_done : :refused
      when "internal" then :refused
      else fields["status"] >= 500 ? :in_doubt : :refused
      end
    end
  end

  # Called with each failure after which a call is repeated.
  attr_accessor :on_repeat

  def initialize(url)
    @url = URI(url)
  end

  def namespace(name) = Namespace.new(self, name)

  # Makes a call, repeats it where that helps, and returns the response. `path` is encoded. `repeat` says
  # whether a call in doubt is repeated: `:no`, `:yes`, or `:guarded` for a change that is made at most once.
  def call(method, path, body: nil, query: {}, repeat: :no, extra_s: 0)
    ends_at = now_s + LIMIT_S + extra_s
    doubt = nil
    (1..TRIES).each do |try|
      return once(method, path, body, query, ends_at - now_s)
    rescue Failure => failure
      doubt = failure if failure.outcome == :in_doubt
      wait_s = [some_wait_s(try), failure.wait_s].max
      may_repeat = failure.outcome == :not_done || (failure.outcome == :in_doubt && repeat != :no)
      unless may_repeat && try < TRIES && now_s + wait_s < ends_at
        raise final(failure, doubt, repeat)
      end

      on_repeat&.call(failure)
      sleep(wait_s)
    end
  end

  private

  def now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # The growing wait, shortened at random by up to a half.
  def some_wait_s(try)
    [FIRST_WAIT_S * 2**(try - 1), LONGEST_WAIT_S].min * (1 - rand / 2)
  end

  # A doubt of an earlier try remains, unless the last response decides.
  def final(failure, doubt, repeat)
    return failure if doubt.nil? || failure.outcome == :in_doubt
    return doubt if failure.outcome == :not_done

    repeat == :guarded && failure.of_state? ? doubt : failure
  end

  def once(method, path, body, query, left_s)
    path += "?#{URI.encode_www_form(query)}" unless query.empty?
    request = Net::HTTP.const_get(method.capitalize).new(path)
    if body
      request.content_type = "application/json"
      request.body = JSON.generate(body)
    end
    http = connect(left_s)
    begin
      read(Timeout.timeout(left_s) { http.request(request) })
    rescue Timeout::Error, IOError, SystemCallError, Net::ProtocolError, OpenSSL::SSL::SSLError => error
      raise Failure.new("no response: #{error.message}", :in_doubt)
    ensure
      http.finish if http.started?
    end
  end

  # Nothing is sent before there is a connection.
  def connect(left_s)
    http = Net::HTTP.new(@url.host, @url.port)
    http.use_ssl = @url.scheme == "https"
    http.open_timeout = [CONNECT_S, left_s].min
    http.read_timeout = left_s
    # The library would repeat some calls by rules of its own.
    http.max_retries = 0
    http.start
  rescue Timeout::Error, SocketError, SystemCallError, OpenSSL::SSL::SSLError => error
    raise Failure.new("no connection: #{error.message}", :not_done)
  end

  # A response without JSON, or a refusal without a code, is not from Duly: it counts as no response.
  def read(response)
    fields = response.body.to_s.empty? ? nil : JSON.parse(response.body)
    return fields if response.is_a?(Net::HTTPSuccess)
    raise Problem, fields if response.content_type == "application/problem+json" && fields["code"]

    raise foreign(response)
  rescue JSON::ParserError
    raise foreign(response)
  end

  def foreign(response)
    is_refusal = %w[401 403 404].include?(response.code)
    Failure.new("HTTP #{response.code}, but not from Duly", is_refusal ? :refused : :in_doubt)
  end

  # The timers of one namespace.
  class Namespace
    def initialize(server, name)
      @server = server
      @path = "/v1/namespaces/#{name}"
    end

    def put(settings) = @server.call("PUT", @path, body: settings, repeat: :yes)

    # The same request again returns the existing timer, so the timer has an id before the first try.
    def schedule(timer) = post("/timers", { id: SecureRandom.uuid, **timer }, repeat: :yes)

    def get(id) = @server.call("GET", timer(id), repeat: :yes)

    # Each field replaces the timer's; `nil` resets it.
    def change(id, fields)
      repeat = fields[:if_revision] ? :guarded : :no
      @server.call("PATCH", timer(id), body: fields, repeat: repeat)
    end

    def cancel(id, if_revision: nil)
      query = { if_revision: if_revision }.compact
      @server.call("DELETE", timer(id), query: query, repeat: :yes)
    end

    # Yields every timer that fits, page by page. A page may be empty and still have a cursor.
    def each_timer(**filter)
      return to_enum(:each_timer, **filter) unless block_given?

      loop do
        page = @server.call("GET", "#{@path}/timers", query: filter, repeat: :yes)
        page["timers"].each { |timer| yield timer }
        break unless page["cursor"]

        filter[:cursor] = page["cursor"]
      end
    end

    # One result for each operation: a timer, an outcome or an error.
    def batch(operations)
      ids = operations.map { |one| one.values_at(:schedule, :cancel).compact.dig(0, :id) }
      repeat = ids.all? && ids.uniq.size == ids.size ? :yes : :no
      post("/batch", { operations: operations }, repeat: repeat)["results"]
    end

    # The firings that are due, or none after `wait_s`.
    def lease(max: 1, wait_s: 0, lease: nil)
      request = { max: max, wait: "#{wait_s}s", lease: lease }.compact
      post("/lease", request, extra_s: wait_s)["firings"]
    end

    # One result for each settlement, `[{ token:, ack: {} }, …]`.
    def settle(settlements) = post("/settle", { settlements: settlements }, repeat: :yes)["results"]

    private

    def post(call, body, **rest) = @server.call("POST", @path + call, body: body, **rest)

    def timer(id) = "#{@path}/timers/#{ERB::Util.url_encode(id)}"
  end
end
